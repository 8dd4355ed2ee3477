package kafka

import (
	"hash/maphash"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// recallFor is how long the ids of batches are remembered after the batches turned out to be accepted. The caller
	// publishes unanswered messages again within seconds; a message that comes much later was sent again on purpose.
	recallFor = 2 * time.Minute
	// maxKept is the maximum time for which a batch without an answer is sent again. Brokers forget a producer after a
	// day (producer.id.expiration.ms), or with the last of its records, and would then append the batch a second time.
	maxKept = time.Hour
)

// A recall knows the ids of messages in batches whose outcome the caller has not learned. These batches are either
// unresolved or have been accepted since. When the caller publishes such messages again, they are answered from their
// batch and not sent twice. A recall is empty while no answer is lost.
type recall struct {
	mu   sync.Mutex
	byID map[string]recalled
}

// A recalled is a message of a kept batch. A row may be corrected while its batch waits; it is then a different
// message.
type recalled struct {
	batch *batch
	sum   uint64 // hash of what consumers see of the message
}

var sumSeed = maphash.MakeSeed()

// sumOf returns a hash of everything that consumers see of a message except its time.
func sumOf(m *publisher.Message) uint64 {
	var h maphash.Hash
	h.SetSeed(sumSeed)
	_, _ = h.Write(appendBody(nil, m))
	return h.Sum64()
}

// keep remembers an unresolved batch by the ids of its messages, which it copies.
func (r *recall) keep(b *batch, messages []publisher.Message, queue []int32, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]recalled{}
	}
	b.since, b.given = now, now
	for _, i := range queue {
		r.byID[strings.Clone(messages[i].ID)] = recalled{b, sumOf(&messages[i])}
	}
}

// accept notes that a kept batch is in the log.
func (r *recall) accept(b *batch, now time.Time) {
	r.mu.Lock()
	b.accepted = now
	r.mu.Unlock()
	r.forget(func(b *batch) bool { return !b.accepted.IsZero() && now.Sub(b.accepted) > recallFor })
}

// forget removes the messages of unwanted batches, such as one that is not in the log and never will be.
func (r *recall) forget(unwanted func(*batch) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.byID, func(_ string, known recalled) bool { return unwanted(known.batch) })
}

// any reports whether any messages are remembered.
func (r *recall) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID) > 0
}

// find returns the batch that holds the message, and whether the batch is accepted. The batch is nil for nearly all
// messages.
func (r *recall) find(m *publisher.Message, now time.Time) (b *batch, accepted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.byID[m.ID]
	if b = known.batch; !ok || b.partition.topic != m.Topic || known.sum != sumOf(m) {
		return nil, false
	}
	accepted = !b.accepted.IsZero()
	if accepted && now.Sub(b.accepted) > recallFor || now.Sub(b.since) > maxKept {
		return nil, false
	}
	b.given = now
	return b, accepted
}

// expired reports whether a kept batch must not be sent again. Either its messages have not been published for a long
// time, because they were deleted or published by another replica; or the broker may have forgotten the batch.
func (r *recall) expired(b *batch, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(b.given) > recallFor || now.Sub(b.since) > maxKept
}

// reported removes a message after its acceptance has been reported to the caller.
func (r *recall) reported(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byID[id]; ok && !known.batch.accepted.IsZero() {
		delete(r.byID, id)
	}
}
