package kafka

import (
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/kept"
)

const (
	// idleKept is how long a batch without an answer is kept for a call that has its messages. They were deleted, or
	// another replica has published them, if none has.
	idleKept = 2 * time.Minute
	// maxKept is the maximum time for which a batch without an answer is sent again. Brokers forget a producer after a
	// day (producer.id.expiration.ms), or with the last of its records, and would then append the batch a second time.
	maxKept = time.Hour
)

// keep keeps an unresolved batch with its messages. When the caller publishes such messages again, they are answered
// from their batch and not sent twice. The batch itself stays with its partition. Only the holder of the turn calls
// keep, but a call for another partition may look at the batch meanwhile, so the fields that change are atomic.
func (p *Publisher) keep(b *batch, messages []publisher.Message, queue []int32, now time.Time) {
	b.kept, b.since = true, now
	b.given.Store(now.UnixNano())
	for _, i := range queue {
		p.kept.Keep(keptID(&messages[i]), &messages[i], b)
	}
}

// keptID identifies a message in the table. A row that was moved to another topic is another message.
func keptID(m *publisher.Message) kept.ID { return kept.ID{Topic: m.Topic, ID: m.ID} }

// expired reports whether a kept batch must not be sent again. given counts from the last call that had one of its
// messages. since does not move: it bounds how old a sequence the broker must know.
func (b *batch) expired(now time.Time) bool {
	return now.Sub(b.since) > maxKept || now.UnixNano()-b.given.Load() > int64(idleKept)
}

// State implements [kept.Answer]. A batch of a deleted topic is Lost: it went with the topic, and nobody can read a
// copy.
func (b *batch) State(now time.Time) kept.State {
	if known := kept.State(b.outcome.Load()); known != kept.None {
		return known
	}
	if b.partition.dead.Load() || b.expired(now) {
		return kept.Lost
	}
	return kept.Waits
}

// Release implements [kept.Answer]. There is nothing to end: the bytes are with the partition, which drops them at its
// next use.
func (b *batch) Release() {}

// kept returns the batch of an earlier call that holds the message, and whether it is accepted. The batch is nil for
// nearly all messages. For a Lost one, the message is sent in a new batch and counted as a possible copy.
func (c *call) kept(i int32) (b *batch, accepted bool) {
	if !c.recalls {
		return nil, false
	}
	m := &c.messages[i]
	b, state := c.publisher.kept.Find(keptID(m), m)
	switch state {
	case kept.Answered:
		return b, true
	case kept.Waits:
		b.given.Store(c.now.UnixNano())
		return b, false
	case kept.Lost:
		c.copied[i] = !b.partition.dead.Load() // else it went with its topic
	case kept.None:
	}
	return nil, false
}
