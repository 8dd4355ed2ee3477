package kafka

import (
	"bytes"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// keyGroups finds the messages of one call that share an ordering key. It is an open hash table of indexes: it copies
// no key, and allocates nothing once it has grown.
type keyGroups struct {
	of     []int32  // by message: the index of the first message with its key, or keyless
	hashes []uint32 // by message: the partitioner's number for its key
	slots  []int32  // index of the first message of a key + 1; 0 is free
}

// keyless is the group of messages without a key, which wait for no other message.
const keyless = -1

// build groups the messages.
func (g *keyGroups) build(messages []publisher.Message, number Partitioner) {
	size := 16
	for size < 2*len(messages) {
		size *= 2
	}
	if len(g.slots) != size {
		g.slots = make([]int32, size)
	} else {
		clear(g.slots)
	}
	g.of, g.hashes = g.of[:0], g.hashes[:0]
	mask := uint32(size - 1)
	for i := range messages {
		key := messages[i].Key
		if key == nil {
			g.of, g.hashes = append(g.of, keyless), append(g.hashes, 0)
			continue
		}
		hash := number(key)
		slot := hash & mask
		for g.slots[slot] != 0 {
			first := g.slots[slot] - 1
			if g.hashes[first] == hash && bytes.Equal(messages[first].Key, key) {
				break
			}
			slot = (slot + 1) & mask
		}
		if g.slots[slot] == 0 {
			g.slots[slot] = int32(i) + 1
		}
		g.of, g.hashes = append(g.of, g.slots[slot]-1), append(g.hashes, hash)
	}
}
