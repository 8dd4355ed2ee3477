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
	"sync/atomic"
	"time"
)

// forgottenAfter is how long it is known that a message was sent whose answer is no longer waited for.
const forgottenAfter = 10 * time.Minute

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

// An Answer is the answer to one message, which may be still to come. The table's lock is held when it is called.
type Answer interface {
	// State returns Waits, Answered or Lost.
	State(now time.Time) State
	// Release ends the wait for the answer. It is called once.
	Release()
}

// A Table holds the kept messages of a publisher. The zero Table is empty and ready for use.
type Table[A Answer] struct {
	count atomic.Int64

	mu    sync.Mutex
	seed  maphash.Seed
	all   map[ID]*message[A]
	swept time.Time
}

type message[A Answer] struct {
	answer   A
	content  uint64    // hash of the payload
	released time.Time // zero while the answer is waited for
}

// Keep keeps a message. The table copies id.
func (t *Table[A]) Keep(id ID, payload []byte, answer A) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all, t.seed = map[ID]*message[A]{}, maphash.MakeSeed()
	}
	if earlier := t.all[id]; earlier != nil {
		earlier.release(time.Now())
	}
	t.all[id.clone()] = &message[A]{answer: answer, content: maphash.Bytes(t.seed, payload)}
	t.count.Store(int64(len(t.all)))
}

// Find returns what is known of a message that is about to be sent. The message stays kept only if it still Waits. A
// row that was corrected in the table since has another payload, and is another message.
func (t *Table[A]) Find(id ID, payload []byte) (answer A, state State) {
	if t.count.Load() == 0 {
		return answer, None
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.all[id]
	if m == nil {
		return answer, None
	}
	now := time.Now()
	state = Lost
	if m.released.IsZero() {
		state = m.answer.State(now)
	}
	switch same := m.content == maphash.Bytes(t.seed, payload); {
	case !same:
		state = None
	case state == Waits:
		return m.answer, Waits
	}
	m.release(now)
	delete(t.all, id)
	t.count.Store(int64(len(t.all)))
	return m.answer, state
}

// Sweep ends the wait for answers that no call has asked for in time. It looks at them once a second at most.
func (t *Table[A]) Sweep() {
	if t.count.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.swept) < time.Second {
		return
	}
	t.swept = now
	for id, m := range t.all {
		switch {
		case m.released.IsZero() && m.answer.State(now) == Lost:
			m.release(now)
		case !m.released.IsZero() && now.Sub(m.released) > forgottenAfter:
			delete(t.all, id)
		}
	}
	t.count.Store(int64(len(t.all)))
}

func (m *message[A]) release(now time.Time) {
	if m.released.IsZero() {
		m.released = now
		m.answer.Release()
	}
}
