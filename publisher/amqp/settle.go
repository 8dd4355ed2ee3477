package amqp

import (
	"slices"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// settle answers the messages that the broker has answered.
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
		case !f.answered, f.returned == nil && !f.confirm.Acked() && ch.closed():
			open = append(open, f)
		case f.returned == nil && f.confirm.Acked():
			b.accepted(ch.conn, f.message)
			b.acquit(f.message)
		default:
			b.refused(ch, f.message, f.returned)
		}
	}
	b.flights = open
	if len(open) == 0 {
		b.trial = false
	}
}

// matchReturns matches the messages that the broker returned by id and route. It takes all messages that look alike: a
// message taken for returned is only sent again, but one that was missed would be lost.
func (b *batch) matchReturns(ch *channel) {
	if !ch.collect() {
		return
	}
	var matched []*amqp091.Return
	for i := range b.flights {
		f := &b.flights[i]
		if r := ch.givenBack(b.route(f.message), b.messages[f.message].ID); r != nil {
			f.returned, matched = r, append(matched, r)
		}
	}
	ch.forgetReturns(matched...)
}

// accepted answers a message that the broker has taken.
func (b *batch) accepted(conn *connection, i int) {
	to := b.route(i)
	conn.accepted(len(b.messages[i].Payload))
	b.routes.accepted(to)
	b.confirmed[to] = b.tick
	b.answer(i, nil)
}

// refused answers a message that the broker has returned, or else not taken.
func (b *batch) refused(ch *channel, i int, r *amqp091.Return) {
	if r != nil {
		b.condemn(i, returned(r, b.names))
		return
	}
	ch.distrust()
	to := b.route(i)
	b.condemn(i, nacked(to, b.routes.rejected(to, b.refusals[to] == nil)))
}

// answerRemembered answers the first messages of all keys as far as their confirms were kept.
func (b *batch) answerRemembered() {
	ready := b.ready
	b.ready = nil
	ready = slices.DeleteFunc(ready, func(i int) bool { return b.remembered(i, b.route(i)) })
	b.ready = append(ready, b.ready...) // those whose key goes on
}

// remembered answers a message that an earlier call has sent and whose confirm was kept. It returns false if there is
// none, or if it will not come: the message is then sent again.
func (b *batch) remembered(i int, to route) bool {
	m := &b.messages[i]
	k, answered, lost := b.kept.find(to, m)
	switch {
	case k == nil:
		if lost {
			b.doubt(i).copied = true
		}
		return false
	case !answered:
		b.answer(i, k.answer)
		return true
	}
	k.channel.collect()
	r := k.channel.givenBack(to, m.ID)
	if r != nil {
		k.channel.forgetReturns(r)
	}
	if r == nil && k.confirm.Acked() {
		b.accepted(k.channel.conn, i)
	} else {
		b.refused(k.channel, i, r)
	}
	return true
}

// keep keeps the confirms of the messages in flight on routes for which answer returns an answer. The message gets that
// now, and then again until the broker has answered.
func (b *batch) keep(ch *channel, answer func(to route) (now, then error)) {
	open := b.flights[:0]
	for _, f := range b.flights {
		to := b.route(f.message)
		now, then := answer(to)
		if now == nil {
			open = append(open, f)
			continue
		}
		k := &kept{channel: ch, confirm: f.confirm, begun: b.begun, patience: b.patience, answer: then}
		b.kept.keep(k, to, &b.messages[f.message])
		b.answer(f.message, now)
	}
	if b.flights = open; len(open) == 0 {
		b.trial = false
	}
}

// keepAll keeps all confirms of a connection on which nothing moves. If the broker is silent, only the messages
// themselves wait, since another connection is made for the others. Their routes are tried by one message each on that
// connection: one of them may lead to the node that is silent.
func (b *batch) keepAll(ch *channel, err error) {
	blocked := ch.conn.blocked.Load() != nil
	b.keep(ch, func(to route) (now, then error) {
		if blocked {
			return err, waiting(to)
		}
		b.routes.begin(to, 0)
		return waiting(to), waiting(to)
	})
}

// refuse remembers the answer for the other messages of a route.
func (b *batch) refuse(to route, err error) {
	if b.refusals == nil {
		b.refusals = map[route]error{}
	}
	b.refusals[to] = unsent(err)
}

// condemn gives a message the broker's verdict. A verdict on its route is remembered.
func (b *batch) condemn(i int, err error) {
	if class := publisher.ClassOf(err); class == publisher.Topology || class == publisher.Unavailable {
		b.refuse(b.route(i), err)
	}
	if publisher.Repeats(err) {
		b.routes.begin(b.route(i), 1)
	}
	b.answer(i, err)
}
