package kafka

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// maxRecalled is how many ids of batches are remembered after they turned out to be accepted.
	maxRecalled = 16384
	// recallFor is how long. The caller gives unanswered messages again within seconds; a message
	// that comes much later was sent again on purpose.
	recallFor = 2 * time.Minute
)

// A recall knows by id the messages of batches whose outcome their caller has not learned: those still
// unresolved, and those accepted since. The caller gives such messages again; they are answered from
// their batch and not sent twice. It is empty while no answer gets lost.
type recall struct {
	size atomic.Int32 // of byID: read without the lock

	mu       sync.Mutex
	byID     map[string]*batch
	accepted []*batch // oldest first
	ids      int      // in accepted
}

// keep remembers an unresolved batch by the ids of its messages, which it copies.
func (r *recall) keep(b *batch, messages []publisher.Message, queue []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]*batch{}
	}
	for _, i := range queue {
		id := strings.Clone(messages[i].ID)
		b.ids = append(b.ids, id)
		r.byID[id] = b
	}
	r.size.Store(int32(len(r.byID)))
}

// accept notes that a kept batch is in the log.
func (r *recall) accept(b *batch, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b.accepted = now
	r.accepted = append(r.accepted, b)
	r.ids += len(b.ids)
	for len(r.accepted) > 0 && (r.ids > maxRecalled || now.Sub(r.accepted[0].accepted) > recallFor) {
		r.drop(r.accepted[0])
		r.ids -= len(r.accepted[0].ids)
		r.accepted = r.accepted[1:]
	}
}

// forget notes that a kept batch is not in the log and never will be.
func (r *recall) forget(b *batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(b)
}

// drop removes the batch's ids; r.mu is held.
func (r *recall) drop(b *batch) {
	for _, id := range b.ids {
		if r.byID[id] == b {
			delete(r.byID, id)
		}
	}
	r.size.Store(int32(len(r.byID)))
}

// find returns the batch that holds the message, and whether it is accepted; nil for nearly all.
func (r *recall) find(topic, id string, now time.Time) (b *batch, accepted bool) {
	if r.size.Load() == 0 {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b = r.byID[id]
	if b == nil || b.partition.topic != topic {
		return nil, false
	}
	if accepted = !b.accepted.IsZero(); accepted && now.Sub(b.accepted) > recallFor {
		return nil, false
	}
	return b, accepted
}

// holds reports whether the message is one of the batch's.
func (r *recall) holds(b *batch, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id] == b
}

// reported removes a message whose caller has now been told that it is accepted.
func (r *recall) reported(id string) {
	if r.size.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.byID[id]; b != nil && !b.accepted.IsZero() {
		delete(r.byID, id)
		r.size.Store(int32(len(r.byID)))
	}
}
