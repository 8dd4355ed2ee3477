package nats

import (
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

// A batch is the state of one call of Publish. It is owned by the goroutine that called. See the package's comment for
// the states of a message.
type batch struct {
	messages []publisher.Message
	errs     []error
	state    []state
	keys     keyorder.Order
	rest     []int32         // number of messages of its key from this one on; 0 if it must go alone
	due      []int32         // messages that follow a message just accepted, which go first
	cursor   int             // index from which messages have not had their turn
	waiting  int             // number of messages sent and not answered
	adopted  map[int32]*kept // those of them that an earlier call has sent
	stop     publisher.Stop  // nothing more is sent after it is closed
	until    time.Time       // how long the answers are waited for, in this call and others
	stranger bool            // an answer came from something that is not a stream
	limit    int64           // what the servers take at most, if this call has asked them; otherwise 0
	late     late
}

// A state says what is known of a message.
type state uint8

const (
	head  state = iota // may be sent: all earlier messages of its key are accepted
	waits              // an earlier message of its key is not accepted, or not yet
	sent               // sent and not answered, by this call or an earlier one
	done               // has its answer
)

// begin prepares the batch for these messages.
func (b *batch) begin(messages []publisher.Message, errs []error) {
	b.messages, b.errs = messages, errs
	b.state, b.rest, b.due = b.state[:0], b.rest[:0], b.due[:0]
	b.cursor, b.waiting, b.stranger, b.limit = 0, 0, false, 0
	b.late.begin()
	clear(b.adopted)
	b.keys.Link(messages, nil)
	for i := range messages {
		b.rest = append(b.rest, 1)
		if b.keys.Waits(i) {
			b.state = append(b.state, waits)
		} else {
			b.state = append(b.state, head)
		}
	}
	for i := len(messages) - 1; i >= 0; i-- {
		if n := b.keys.Next[i]; n != keyorder.None {
			b.rest[i] += b.rest[n]
		}
	}
}

// turn returns the next message that may be sent.
func (b *batch) turn() (int32, bool) {
	if n := len(b.due); n > 0 {
		i := b.due[n-1]
		b.due = b.due[:n-1]
		return i, true
	}
	for b.cursor < len(b.state) {
		i := b.cursor
		b.cursor++
		if b.state[i] == head {
			return int32(i), true
		}
	}
	return 0, false
}

// send notes that a message is on its way.
func (b *batch) send(i int32) {
	b.state[i] = sent
	b.waiting++
}

// again lets a message that was not stored be sent alone.
func (b *batch) again(i int32, to state) {
	b.waiting--
	b.state[i], b.rest[i] = to, 0
	if to == head {
		b.due = append(b.due, i)
	}
}

// answer settles a message. If it was accepted, the next message of its key may go.
func (b *batch) answer(i int32, err error) {
	if b.state[i] == sent {
		b.waiting--
	}
	b.state[i], b.errs[i] = done, err
	if n := b.keys.Next[i]; n != keyorder.None && accepted(err) && b.state[n] == waits {
		b.state[n] = head
		b.due = append(b.due, n)
	}
}

// deny answers the messages in flight to subjects to which this client may not publish.
func (b *batch) deny(subjects map[string]struct{}) {
	for i := range b.state {
		if b.state[i] != sent || b.adopted[int32(i)] != nil {
			continue
		}
		subject := b.messages[i].Topic
		if _, denied := subjects[subject]; denied {
			b.answer(int32(i), notPermitted(subject))
		}
	}
}

// finish answers everything that has no answer yet, and drops the references to the caller's memory.
func (b *batch) finish(unsent error, unanswered func(i int32) error) {
	for i := range b.state {
		switch b.state[i] {
		case head:
			b.errs[i] = unsent
		case sent:
			b.errs[i] = unanswered(int32(i))
		case waits:
			b.errs[i] = publisher.ErrNotAttempted
		default: // it has its answer
		}
	}
	b.messages, b.errs, b.stop = nil, nil, nil
}
