package amqp

import (
	"errors"
	"slices"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/kept"
)

// settle answers the messages that the broker has answered. It does not block. It is called after each sign that
// something has arrived, and looks at all messages in flight: the library has an event for each message, and none for
// the arrival of some.
func (b *batch) settle(ch *channel) {
	for i := range b.flights {
		f := &b.flights[i]
		select {
		case <-f.confirm.Done():
			f.answered = true
		default:
		}
	}
	// A message's return comes before its confirm. The returns of all messages that were just found answered have
	// therefore arrived; a check before that could miss one.
	b.matchReturns(ch)
	open := b.flights[:0]
	for _, f := range b.flights {
		switch {
		// A negative confirm on a channel that has ended is the library's own, for every message without an answer.
		// closed decides about these.
		case !f.answered, f.returned == nil && !f.confirm.Acked() && ch.closed():
			open = append(open, f)
		case f.returned == nil && f.confirm.Acked():
			b.accepted(ch.conn, f.message)
		default:
			b.refused(ch, f.message, f.returned)
		}
	}
	b.flights = open
}

// matchReturns matches the messages that the broker returned by id and route. It takes all messages that look alike: a
// message taken for returned is only sent again, but one that was missed would be lost. A return has no delivery tag,
// so the id and the route are all there is to go by. Every message therefore carries its id, in every wire format.
func (b *batch) matchReturns(ch *channel) {
	if !ch.collect() {
		return
	}
	found := map[kept.ID]*amqp091.Return{}
	for i := range b.flights {
		f := &b.flights[i]
		id := b.route(f.message).id(b.messages[f.message].ID)
		if found[id] == nil {
			found[id] = ch.givenBack(id)
		}
		if r := found[id]; r != nil {
			f.returned = r
		}
	}
}

// accepted answers a message that the broker has taken. The limit of its route rises.
func (b *batch) accepted(conn *connection, i int) {
	to := b.route(i)
	conn.accepts.Store(time.Now().UnixNano())
	b.p.routes.accepted(to)
	b.confirmed[to] = b.tick
	b.answer(i, nil)
}

// refused answers a message that the broker has returned, or else not taken. A negative confirm comes from the queue,
// so the channel is not used again (see channel.stale).
func (b *batch) refused(ch *channel, i int, r *amqp091.Return) {
	if r != nil {
		b.condemn(i, returned(r, b.p.names))
		return
	}
	ch.distrust()
	to := b.route(i)
	b.condemn(i, nacked(to, b.p.routes.rejected(to, b.refusals[to] == nil)))
}

// answerRemembered answers the first messages of all keys as far as their confirms were kept. Messages of earlier calls
// come before anything is sent, because their answers free room on channels and decide what may follow.
func (b *batch) answerRemembered() {
	ready := b.ready
	b.ready = nil
	ready = slices.DeleteFunc(ready, func(i int) bool { return b.remembered(i, b.route(i)) })
	b.ready = append(ready, b.ready...) // those whose key goes on
}

// refuse remembers the answer for the other messages of a route. They are answered without being sent. They leave no
// copies, so the relay may try them as often as others.
func (b *batch) refuse(to route, err error) {
	if e, ok := errors.AsType[*publisher.Error](err); ok && e.Repeats {
		quiet := *e
		quiet.Repeats, err = false, &quiet
	}
	b.refusals[to] = err
}

// condemn gives a message the broker's verdict. A verdict on its route is remembered. If each try may leave a copy, the
// route is limited to one message at a time.
func (b *batch) condemn(i int, err error) {
	if class := publisher.ClassOf(err); class == publisher.Topology || class == publisher.Unavailable {
		b.refuse(b.route(i), err)
	}
	if publisher.Repeats(err) {
		b.p.routes.begin(b.route(i), 1)
	}
	b.answer(i, err)
}
