package amqp

import (
	"cmp"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/kept"
)

// keptFor is how long a confirm is waited for if the call that sent the message has no time limit.
const keptFor = 10 * time.Second

// An owed confirm is that of a message that was sent and whose call did not wait for it. Its channel and connection
// stay open for it (see channel.keep).
type owed struct {
	channel  *channel
	confirm  *amqp091.DeferredConfirmation
	begun    time.Time     // beginning of the call that sent the message
	patience time.Duration // how long the confirm is waited for, from then on
	answer   error         // answer for the message until the broker's
}

// id names a message on the route in the table of kept messages, and in what the broker returns.
func (r route) id(id string) kept.ID { return kept.ID{Exchange: r.exchange, Topic: r.topic, ID: id} }

// State implements [kept.Answer]. During an alarm the broker reads nothing, and time does not count: it begins again at
// the end of the alarm, when the broker reads what has gathered. A confirm that the library has set to false at the end
// of the channel is no answer of the broker. The library first closes the channel, so the channel is looked at last.
func (o *owed) State(now time.Time) kept.State {
	conn := o.channel.conn
	begun := o.begun
	if freed := time.Unix(0, conn.freed.Load()); freed.After(begun) {
		begun = freed
	}
	select {
	case <-o.confirm.Done():
		if o.confirm.Acked() || !o.channel.amqp.IsClosed() {
			return kept.Answered
		}
		return kept.Lost
	default:
	}
	if o.channel.amqp.IsClosed() || conn.blocked.Load() == nil && now.Sub(begun) > o.patience {
		return kept.Lost
	}
	return kept.Waits
}

// Release implements [kept.Answer]. If the broker has confirmed neither this message nor another one for half of its
// time, the node may have lost contact with the other nodes. The keeper then looks for another node (see leaves).
func (o *owed) Release() {
	o.channel.keep(-1)
	select {
	case <-o.confirm.Done():
	default:
		if conn := o.channel.conn; time.Since(time.Unix(0, conn.accepts.Load())) > o.patience/2 {
			conn.futile.Store(true)
			conn.p.keeper.Look()
		}
	}
}

// remembered answers a message that an earlier call has sent and whose confirm was kept. It returns false if there is
// none, or if it will not come: the message is then sent again. A message whose confirm is still awaited gets its
// earlier answer, so that the relay's hold for its route goes on.
func (b *batch) remembered(i int, to route) bool {
	m := &b.messages[i]
	o, state := b.p.kept.Find(to.id(m.ID), m)
	switch state {
	case kept.None:
		return false
	case kept.Lost:
		b.copied[i]++
		return false
	case kept.Waits:
		b.answer(i, o.answer)
	case kept.Answered:
		b.p.kept.Told(to.id(m.ID))
		o.channel.collect()
		if r := o.channel.givenBack(to.id(m.ID)); r != nil || !o.confirm.Acked() {
			b.refused(o.channel, i, r)
		} else {
			b.accepted(o.channel.conn, i)
		}
	}
	return true
}

// keep keeps the confirms of the messages in flight on routes for which answerOf returns an answer. The message gets
// that until the broker has answered; in the present call, it gets now if that is not nil.
func (b *batch) keep(ch *channel, now error, answerOf func(to route) error) {
	open := b.flights[:0]
	for _, f := range b.flights {
		to, m := b.route(f.message), &b.messages[f.message]
		if f.returned != nil { // the confirm that is to come says nothing more
			b.refused(ch, f.message, f.returned)
			continue
		}
		answer := answerOf(to)
		if answer == nil {
			open = append(open, f)
			continue
		}
		o := &owed{ch, f.confirm, b.begun, b.patience, answer}
		ch.keep(+1)
		b.p.kept.Keep(to.id(m.ID), m, o)
		b.answer(f.message, cmp.Or(now, answer))
	}
	b.flights = open
}

// keepAll keeps all confirms of a connection on which nothing moves, because the broker blocks publishing or is silent.
// During an alarm, the present call answers for the whole broker. If the broker is silent, another connection is made
// for the other messages. The routes are tried by one message each on that connection: one of them may lead to the node
// that is silent. After it, the call has nothing in flight and ends with the reason.
func (b *batch) keepAll(ch *channel, err error) {
	blocked := ch.conn.blocked.Load() != nil
	if !blocked {
		err = nil
	}
	b.keep(ch, err, func(to route) error {
		if !blocked {
			b.p.routes.begin(to, 0)
		}
		return waiting(to)
	})
}

// waiting is the answer for a message whose confirm is kept, while its route may well work.
func waiting(to route) error {
	return publisher.UnavailableError(publisher.ScopeMessage, "no answer",
		"RabbitMQ has the message for %q on exchange %q, and has not confirmed it yet", to.topic, to.exchange)
}
