// Package keyorder finds the messages of one call of Publish that share an ordering key, so that a publisher can keep
// their order.
//
// How they keep it is their own: the records of a key stay in order within a partition's batch in Kafka, whereas NATS
// and RabbitMQ get the next message of a key when the previous one is accepted.
package keyorder

import (
	"unsafe"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// None stands for no message. It is the First of a message without a key, which waits for no other message.
const None = -1

// An Order links the messages of one call that share a key. It copies no key. The zero Order is ready for use, by one
// goroutine at a time.
type Order struct {
	First []int32 // by message: the first message with its key, or None if it has no key
	Next  []int32 // by message: the following message with its key, or None

	last  []int32          // by first message: the last one with its key so far
	byKey map[string]int32 // first messages, while they are linked
}

// Link links the messages. They belong to the caller and must not change while the Order is used.
func (o *Order) Link(messages []publisher.Message) {
	if o.byKey == nil {
		o.byKey = map[string]int32{}
	}
	o.First, o.Next, o.last = o.First[:0], o.Next[:0], o.last[:0]
	for i := range messages {
		o.First, o.Next, o.last = append(o.First, None), append(o.Next, None), append(o.last, int32(i))
		key := messages[i].Key
		if key == nil {
			continue
		}
		first, known := o.byKey[string(key)]
		if known {
			o.Next[o.last[first]] = int32(i)
			o.last[first] = int32(i)
		} else {
			first = int32(i)
			//nolint:gosec // saves a copy of each key; nobody changes it before the map is cleared
			o.byKey[unsafe.String(unsafe.SliceData(key), len(key))] = first
		}
		o.First[i] = first
	}
	clear(o.byKey)
}

// Waits reports whether an earlier message has the same key.
func (o *Order) Waits(i int) bool { return o.First[i] != None && o.First[i] != int32(i) }
