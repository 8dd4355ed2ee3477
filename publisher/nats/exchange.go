package nats

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// window is the maximum number of unanswered messages of one call.
const window = 1000

// publish sends the messages and fills errs. It reports whether everything sent was answered.
func (l *lane) publish(ctx context.Context, messages []publisher.Message, errs []error) bool {
	l.calls++
	b := &l.batch
	b.begin(messages, errs)
	l.run.clear()
	b.stop, b.until = publisher.StopOf(ctx), time.Now().Add(l.link.timeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.After(b.until) {
		b.until = deadline
	}
	unanswered, unsent := l.exchange(ctx, b)
	earlier := maps.Clone(b.adopted)
	if ctx.Err() != nil && !l.link.nc.IsClosed() { // the call may have had less time than the messages have
		l.keepSent(b, func(subject string) (string, bool) {
			if s := l.link.streams.find(subject); s != nil && s.name != "" {
				return s.name, true
			}
			return subject, true
		})
	}
	for _, one := range b.adopted {
		l.link.keeper.leave(one)
	}
	settled := b.waiting == len(earlier) && len(l.parked) == 0
	b.finish(unsent, func(i int32) error {
		if earlier[i] != nil {
			return l.stillWaits(b.messages[i].Topic, unsent)
		}
		return unanswered(b.messages[i].Topic)
	})
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
		room, more, gone := l.sendAll(ctx, b)
		if gone {
			<-l.link.closed
			return l.cutOff(b)
		}
		switch {
		case b.waiting > 0 || room != nil:
		case !more:
			return nil, nil
		case b.stop.Closed():
			return nil, publisher.ErrNotAttempted
		}
		select {
		case m := <-l.acks:
			l.settle(b, m)
			l.drain(b)
		case <-room:
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

// sendAll sends as much as the window and the connection's queue allow, and nothing if ctx has ended or the call was
// stopped. It returns a channel to wait for if the queue is full, and reports whether there may be more to send, and
// whether the connection was found gone.
func (l *lane) sendAll(ctx context.Context, b *batch) (room <-chan struct{}, more, gone bool) {
	for b.waiting < window && ctx.Err() == nil && !b.stop.Closed() {
		if room = l.link.conn.busy(); room != nil {
			return room, true, false
		}
		i, ok := b.turn()
		if !ok {
			if !l.run.due() {
				return nil, false, false
			}
			if l.sendRun(ctx, b) {
				return nil, true, true
			}
			continue
		}
		if l.passOver(b, i) || l.adopt(b, i) {
			continue
		}
		if int(b.rest[i]) >= l.link.hot && l.heat(b, i) {
			continue
		}
		err := l.send(i, &b.messages[i])
		if large, ok := errors.AsType[*tooLarge](err); ok {
			err = l.askLimit(ctx, large, &b.limit)
		}
		switch {
		case err == nil:
			b.send(i)
		case errors.Is(err, errGone):
			return nil, true, true
		default:
			b.answer(i, err)
		}
	}
	return nil, true, false
}

// settle handles one answer. It ignores answers that are not for a waiting message of this call.
func (l *lane) settle(b *batch, m *nats.Msg) {
	i, ok := l.index(m.Subject)
	if !ok || int(i) >= len(b.state) {
		return
	}
	if l.parked[i] != nil && b.adopted[i] == nil {
		l.arrived(m)
		return
	}
	if b.state[i] != sent {
		return
	}
	a, ok := readAck(m)
	if !ok {
		b.stranger = true
		return
	}
	l.meet(a, b.messages[i].Topic)
	switch one := b.adopted[i]; {
	case one != nil:
		l.link.keeper.forget(one)
		delete(b.adopted, i)
		if one.run != "" {
			l.ofRun(b, i, one.run, a)
			return
		}
	case l.run.awaits(i):
		l.committed(b, a)
		return
	}
	b.answer(i, l.answer(&b.messages[i], a))
}

// answer returns the message's answer.
func (l *lane) answer(m *publisher.Message, a ack) error {
	if a.unheard {
		return l.unheard(m.Topic)
	}
	return l.fate(m.Topic, a, a.answer(m, l.link.names))
}

// deny handles the subjects that the server has refused to this call.
func (l *lane) deny(b *batch) {
	subjects := l.link.denied(l)
	if l.link.forbidden(subjects) {
		l.link.streams.set(func() { l.link.streams.blind = true })
	}
	if l.run.has(b, subjects) { // the server drops a batch that lacks a message
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
