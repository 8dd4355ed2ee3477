package nats

import (
	"context"
	"errors"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

// A batch is the state of one call of Publish. It is owned by the goroutine that called.
type batch struct {
	messages []publisher.Message
	errs     []error
	state    []state
	keys     keyorder.Order
	rest     []int32        // number of messages of its key from this one on; 0 if it must go alone
	due      []int32        // messages that follow a message just accepted, which go first
	cursor   int            // index from which messages have not had their turn
	waiting  int            // number of messages sent and not answered
	stop     publisher.Stop // nothing more is sent after it is closed
	stranger bool           // an answer came from something that is not a stream
	late     late
	// abandoned is set if answers may still come to messages that were given up.
	abandoned bool
	resent    map[int32]struct{} // messages that this call has sent before, in a run whose outcome is open
}

// A state says what is known of a message.
type state uint8

const (
	head   state = iota // may be sent: all earlier messages of its key are accepted
	waits               // an earlier message of its key is not accepted, or not yet
	sent                // sent and not answered
	staged              // in an atomic batch that is not answered
	done                // has its answer
)

// begin prepares the batch for these messages.
func (b *batch) begin(messages []publisher.Message, errs []error) {
	b.messages, b.errs = messages, errs
	b.state, b.rest, b.due = b.state[:0], b.rest[:0], b.due[:0]
	b.cursor, b.waiting, b.stranger, b.abandoned = 0, 0, false, false
	b.late.begin()
	clear(b.resent)
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

// again notes that messages are sent a second time in this call, and that the stream may therefore have them already.
func (b *batch) again(messages []int32) {
	if b.resent == nil {
		b.resent = map[int32]struct{}{}
	}
	for _, i := range messages {
		b.resent[i] = struct{}{}
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

// reheat lets the messages after the given one go in atomic batches again.
func (b *batch) reheat(i int32) {
	var later []int32
	for n := b.keys.Next[i]; n != keyorder.None; n = b.keys.Next[n] {
		later = append(later, n)
	}
	for n, at := range later {
		b.rest[at] = int32(len(later) - n)
	}
}

// deny answers the messages in flight to subjects to which this client may not publish.
func (b *batch) deny(subjects map[string]struct{}) {
	for i := range b.state {
		if b.state[i] != sent {
			continue
		}
		subject := b.messages[i].Topic
		if _, denied := subjects[subject]; denied {
			b.answer(int32(i), notPermitted(subject))
		}
	}
}

// finish answers everything that has no answer yet, and drops the references to the caller's memory.
func (b *batch) finish(unsent error, unanswered func(subject string) error) {
	for i := range b.state {
		switch b.state[i] {
		case head:
			b.errs[i] = unsent
		case sent, staged:
			b.errs[i] = unanswered(b.messages[i].Topic)
		case waits:
			b.errs[i] = publisher.ErrNotAttempted
		default: // it has its answer
		}
	}
	b.messages, b.errs, b.stop = nil, nil, nil
}

// publish sends the messages and fills errs. It reports whether everything sent was answered.
func (l *lane) publish(ctx context.Context, messages []publisher.Message, errs []error) bool {
	l.calls++
	b := &l.batch
	b.begin(messages, errs)
	l.run.clear()
	b.stop = publisher.StopOf(ctx)
	unanswered, unsent := l.exchange(ctx, b)
	settled := b.waiting == 0 && !b.abandoned
	b.finish(unsent, unanswered)
	l.wire.forget()
	l.good = ""
	return settled
}

// exchange sends what may be sent and takes answers until nothing is left to do. Otherwise it returns the answers for
// messages that were sent and got none, and for messages that were not sent.
func (l *lane) exchange(ctx context.Context, b *batch) (unanswered func(subject string) error, unsent error) {
	l.patience.Reset(answerTime)
	defer l.patience.Stop()
	for {
		more, gone := l.sendAll(ctx, b)
		if gone {
			<-l.link.closed
			return l.cutOff(b)
		}
		switch {
		case b.waiting > 0:
		case !more:
			return nil, nil
		case b.stop.Closed():
			return nil, publisher.ErrNotAttempted
		}
		select {
		case m := <-l.acks:
			l.settle(b, m)
			l.drain(b)
		case <-l.warned:
			l.deny(b)
		case <-l.link.closed:
			return l.cutOff(b)
		case <-ctx.Done():
			l.drain(b)
			return l.silence(b, context.Cause(ctx)), callEnded(ctx)
		case now := <-l.patience.C:
			l.look(b, now)
		}
	}
}

// sendAll sends as much as the window allows, and nothing if ctx has ended or the call was stopped. It reports whether
// there may be more to send, and whether the connection was found gone.
func (l *lane) sendAll(ctx context.Context, b *batch) (more, gone bool) {
	for b.waiting < window && ctx.Err() == nil && !b.stop.Closed() {
		i, ok := b.turn()
		if !ok {
			if !l.run.due() {
				return false, false
			}
			if l.sendRun(ctx, b) {
				return true, true
			}
			continue
		}
		if l.passOver(b, i) {
			continue
		}
		if int(b.rest[i]) >= l.link.hot && l.heat(b, i) {
			continue
		}
		switch err := l.send(i, &b.messages[i]); {
		case err == nil:
			b.state[i] = sent
			b.waiting++
		case errors.Is(err, errGone):
			return true, true
		default:
			b.answer(i, err)
		}
	}
	return true, false
}

// deny handles the subjects that the server has refused to this call.
func (l *lane) deny(b *batch) {
	subjects := l.link.denied(l)
	if l.link.forbidden(subjects) {
		l.link.streams.close()
	}
	if _, denied := subjects[l.prefix+echoToken]; denied {
		l.link.mute.Store(true)
	}
	if l.run.has(b, subjects) {
		b.again(l.run.messages)
		l.undo(b)
	}
	b.deny(subjects)
}

// cutOff takes the answers that came before the end of the link. It returns the answers for the other messages, as
// exchange does.
func (l *lane) cutOff(b *batch) (unanswered func(subject string) error, unsent error) {
	l.drain(b)
	lost := l.link.lost()
	b.late.begin()
	return l.silence(b, lost), lost
}

// drain takes the answers that have arrived.
func (l *lane) drain(b *batch) {
	for {
		select {
		case m := <-l.acks:
			l.settle(b, m)
		default:
			return
		}
	}
}
