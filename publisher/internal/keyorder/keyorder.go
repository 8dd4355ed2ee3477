// Package keyorder finds the messages of one call of Publish that share an ordering key, so that a publisher can keep
// their order.
//
// How they keep it is their own: the records of a key stay in order within a partition's batch in Kafka, whereas NATS
// and RabbitMQ get the next message of a key when the previous one is accepted.
package keyorder

import (
	"bytes"
	"hash/maphash"
	"slices"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// None stands for no message. It is the First of a message without a key, which waits for no other message.
const None = -1

// An Order links the messages of one call that share a key. It is an open hash table of indexes: it copies no key, and
// allocates nothing once it has grown. The zero Order is ready for use, by one goroutine at a time.
type Order struct {
	First []int32 // by message: the first message with its key, or None if it has no key
	Next  []int32 // by message: the following message with its key, or None

	hashes []uint32 // by message: the hash of its key
	slots  []int32  // the last message of a key + 1; 0 is free
	seed   maphash.Seed
}

// Link links the messages. Nobody who writes rows can foresee the hashes, and thereby make many keys share a slot. The
// seed is random for that. The messages belong to the caller and must not change while the Order is used.
func (o *Order) Link(messages []publisher.Message) {
	if o.seed == (maphash.Seed{}) {
		o.seed = maphash.MakeSeed()
	}
	o.reset(len(messages))
	mask := uint32(len(o.slots) - 1)
	for i := range messages {
		o.First[i], o.Next[i], o.hashes[i] = None, None, 0
		key := messages[i].Key
		if key == nil {
			continue
		}
		hash := uint32(maphash.Bytes(o.seed, key))
		slot := hash & mask
		for o.slots[slot] != 0 {
			last := o.slots[slot] - 1
			if o.hashes[last] == hash && bytes.Equal(messages[last].Key, key) {
				break
			}
			slot = (slot + 1) & mask
		}
		o.First[i], o.hashes[i] = int32(i), hash
		if last := o.slots[slot] - 1; last != None {
			o.First[i], o.Next[last] = o.First[last], int32(i)
		}
		o.slots[slot] = int32(i) + 1
	}
}

// Waits reports whether an earlier message has the same key.
func (o *Order) Waits(i int) bool { return o.First[i] != None && o.First[i] != int32(i) }

// reset makes room for n messages. At most half of the slots are taken.
func (o *Order) reset(n int) {
	size := 16
	for size < 2*n {
		size *= 2
	}
	if len(o.slots) != size {
		o.slots = make([]int32, size)
	} else {
		clear(o.slots)
	}
	o.First = slices.Grow(o.First[:0], n)[:n]
	o.Next = slices.Grow(o.Next[:0], n)[:n]
	o.hashes = slices.Grow(o.hashes[:0], n)[:n]
}
