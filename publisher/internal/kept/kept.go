// Package kept remembers messages that were sent and that no call waits for any more.
//
// If a stream or a queue does not answer for a moment, the call gives its messages up, so that messages of others do
// not wait. The messages are still on their way, and their answers may come later. The next call that has such a
// message takes the answer, or reports that there is none yet. The message is sent again only if the broker's answer
// can no longer come, or has been waited for long enough: a copy is never made out of impatience.
package kept

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// knownFor is how long it is known of a message for which no call asks that it was answered, or that its answer is not
// waited for any more. The relay publishes such a message again soon; one that comes much later was sent again on
// purpose.
const knownFor = 10 * time.Minute

// An ID identifies a message. A message to another place is another message.
type ID struct{ Exchange, Topic, ID string }

func (id ID) clone() ID {
	return ID{strings.Clone(id.Exchange), strings.Clone(id.Topic), strings.Clone(id.ID)}
}

// A State says what is known of the answer to a kept message.
type State int

const (
	None     State = iota // the message is not kept
	Waits                 // there is no answer yet
	Answered              // the broker has answered
	Lost                  // no answer will come, or it was waited for long enough: the broker may have the message
)

// An Answer is the answer to one message, which may be still to come. The table's lock is held when it is called. It
// may take a lock of its own then; whoever holds that lock must therefore not call the table.
type Answer interface {
	// State returns Waits, Answered or Lost.
	State(now time.Time) State
	// Release ends the wait for the answer. It is called once.
	Release()
}

// A Table holds the kept messages of a publisher. The zero Table is empty and ready for use. Its methods may be called
// concurrently. A message is in it once: the latest try counts.
type Table[A Answer] struct {
	mu    sync.Mutex
	seed  maphash.Seed
	all   map[ID]*message[A]
	swept time.Time
}

type message[A Answer] struct {
	answer   A
	content  uint64    // hash of what consumers see of the message
	asked    time.Time // time at which a call last had the message
	released bool      // the answer is no longer waited for
}

// Keep keeps a message. The table copies id. If an earlier try of the message is kept, the wait for its answer ends.
func (t *Table[A]) Keep(id ID, m *publisher.Message, answer A) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all, t.seed = map[ID]*message[A]{}, maphash.MakeSeed()
	}
	if earlier := t.all[id]; earlier != nil {
		earlier.release()
	}
	t.all[id.clone()] = &message[A]{answer: answer, content: t.hash(m), asked: time.Now()}
}

// Any reports whether there are messages in the table. In good times there are none, and a publisher need not look for
// each of its messages.
func (t *Table[A]) Any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all) > 0
}

// Waiting returns the number of messages whose answers may still come.
func (t *Table[A]) Waiting() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, m := range t.all {
		if m.state(now) == Waits {
			n++
		}
	}
	return n
}

// Find returns what is known of a message that is about to be sent. The message stays kept while it Waits, and after it
// was Answered until Told. A row that was corrected in the table since is another message. What is Lost is forgotten
// here, because the caller sends the message again and counts it.
func (t *Table[A]) Find(id ID, m *publisher.Message) (answer A, state State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.all[id]
	if known == nil {
		return answer, None
	}
	known.asked = time.Now()
	state = known.state(known.asked)
	if known.content != t.hash(m) {
		state = None
	}
	if state == None || state == Lost {
		t.remove(id, known)
	}
	return known.answer, state
}

// Told forgets a message whose answer the caller has. Until then it stays, because the call that has found the answer
// may have to hold the message back for the sake of its key.
func (t *Table[A]) Told(id ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.all[id]; known != nil {
		t.remove(id, known)
	}
}

// Sweep ends the wait for answers that no call has asked for in time. It looks at them once a second at most. The
// answer of a message whose row was deleted, or was published by another replica, would otherwise be kept for ever.
func (t *Table[A]) Sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.swept) < time.Second {
		return
	}
	t.swept = now
	for id, known := range t.all {
		switch state := known.state(now); {
		case state != Waits && now.Sub(known.asked) > knownFor:
			t.remove(id, known)
		case state == Lost:
			known.release()
		}
	}
}

// remove forgets a message. t.mu is held.
func (t *Table[A]) remove(id ID, known *message[A]) {
	known.release()
	delete(t.all, id)
}

// hash returns a hash of everything that consumers see of a message except its time.
func (t *Table[A]) hash(m *publisher.Message) uint64 {
	var h maphash.Hash
	h.SetSeed(t.seed)
	maphash.WriteComparable(&h, struct {
		noKey, noPayload bool
		key              int
	}{m.Key == nil, m.Payload == nil, len(m.Key)})
	_, _ = h.Write(m.Key)
	_, _ = h.Write(m.Payload)
	_, _ = h.Write(m.WireKey)
	for i := range m.Headers {
		maphash.WriteComparable(&h, m.Headers[i])
	}
	return h.Sum64()
}

func (m *message[A]) state(now time.Time) State {
	if m.released {
		return Lost
	}
	return m.answer.State(now)
}

func (m *message[A]) release() {
	if !m.released {
		m.released = true
		m.answer.Release()
	}
}
