package amqp

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

// A batch is the state of one call of Publish. Of each key, only the first unanswered message may be sent. It is in
// ready, among the suspects, or in flight.
type batch struct {
	exchange string         // exchange of messages that name none
	stop     publisher.Stop // nothing more is sent after it is closed
	messages []publisher.Message
	names    setting.Names
	answers  []error
	open     int // number of messages without an answer
	keys     keyorder.Order

	ready    []int    // messages that may be sent now, in order
	flights  []flight // messages sent on the channel and unanswered
	adopted  []*kept  // messages sent by earlier calls and unanswered
	suspects suspects

	exchanges map[string]error // exchanges that messages name, with what was found for each; nil if there are none
	routes    map[route]error  // ways that this call has found unusable

	fanouts map[string]struct{}   // exchanges known as fanouts when the call began
	trouble func(exchange string) // called with an exchange that has a route in trouble

	caution   *caution // shared by the calls of the publisher
	careful   bool     // caution names routes
	flying    map[route]int
	aside     []int         // messages that wait for others on their route
	tick      int           // number of times that the call has checked for late messages
	received  int64         // bytes received by the connection at the last check
	confirmed map[route]int // tick at which a route last confirmed
	given     int           // number of the channel's messages that were given up
	pilot     pilot
	forsaken  bool // nothing more is sent on the channel

	latest uint64 // delivery tag of the last message on the channel that was accepted
}

// A flight is a message on the wire.
type flight struct {
	message  int
	confirm  *amqp091.DeferredConfirmation
	answered bool
	returned *amqp091.Return
	tick     int // tick at which the message was sent
}

// A route is the destination of a message within the broker.
type route struct{ exchange, topic string }

func newBatch(exchange string, messages []publisher.Message, caution *caution) *batch {
	b := &batch{
		caution:  caution,
		careful:  caution.any(),
		exchange: exchange,
		messages: messages,
		answers:  make([]error, len(messages)),
		open:     len(messages),
		ready:    make([]int, 0, len(messages)),
		flights:  make([]flight, 0, min(window, len(messages))),
	}
	b.keys.Link(messages, nil)
	for i := range messages {
		b.name(messages[i].Exchange)
		if !b.keys.Waits(i) {
			b.ready = append(b.ready, i)
		}
	}
	return b
}

// name notes an exchange that a message names, so that the exchange is checked before it is used.
func (b *batch) name(exchange string) {
	if exchange == "" || checkExchangeName(exchange) != nil {
		return
	}
	if b.exchanges == nil {
		b.exchanges = map[string]error{}
	}
	b.exchanges[exchange] = nil
}

// route returns the destination of a message.
func (b *batch) route(i int) route {
	m := &b.messages[i]
	if m.Exchange != "" {
		return route{m.Exchange, m.Topic}
	}
	return route{b.exchange, m.Topic}
}

// unusable returns the reason why a message's route cannot be used, or nil if none is known.
func (b *batch) unusable(i int) error {
	if b.exchanges != nil {
		if err := b.exchanges[b.messages[i].Exchange]; err != nil {
			return err
		}
	}
	if b.routes != nil {
		if err := b.routes[b.way(i)]; err != nil {
			return err
		}
		return b.routes[b.route(i)]
	}
	return nil
}

// complete reports whether every message has its answer.
func (b *batch) complete() bool { return b.open == 0 }

// lookForExchanges checks the exchanges before they are used. If an exchange that messages name is missing, only those
// messages are affected. Any other error is the answer for all messages that were not sent.
func (b *batch) lookForExchanges(ctx context.Context, conn *connection) error {
	if err := conn.checkExchange(ctx, b.exchange, publisher.ScopeDestination); err != nil {
		return err
	}
	for name, known := range b.exchanges {
		if known != nil {
			continue
		}
		err := conn.checkExchange(ctx, name, publisher.ScopeTopic)
		if publisher.ClassOf(err) == publisher.Topology {
			b.exchanges[name] = publisher.WithFate(err, exchangeFate(name))
		} else if err != nil {
			return err
		}
	}
	return nil
}

// run publishes on the channel until all messages are answered or the broker closes the channel. It then returns nil,
// and messages that are still open need another channel. If nothing more can be sent, run returns the answer for the
// messages that were not sent; messages in flight then have no answer.
func (b *batch) run(ctx context.Context, ch *channel) error {
	b.latest, b.given, b.pilot, b.forsaken = 0, 0, pilot{}, false
	looking := time.NewTicker(glance)
	defer looking.Stop()
	for {
		stop := b.send(ctx, ch)
		if len(b.flights) == 0 && (b.forsaken || len(b.adopted) == 0) {
			return stop
		}
		select {
		case <-ch.woken:
			b.settle(ch)
		case <-looking.C:
			b.settle(ch)
			b.look(ctx, ch)
		case <-ctx.Done():
			b.settle(ch)
			if len(b.flights) > 0 {
				ch.conn.check(context.WithoutCancel(ctx)) // the call is over, and the broker gets its time
			}
			return publisher.ErrNotAttempted
		}
		if ch.closed() {
			return b.closed(ctx, ch)
		}
	}
}

// send publishes what is ready, as far as the window allows. If no more may be sent now, it returns the answer for the
// rest.
func (b *batch) send(ctx context.Context, ch *channel) (stop error) {
	if !b.sendable() {
		return nil
	}
	ch.conn.socket.burst(ctx, func() {
		for b.sendable() && stop == nil {
			if ctx.Err() != nil || b.stop.Closed() {
				stop = publisher.ErrNotAttempted
				return
			}
			if stop = ch.conn.usable(); stop != nil || ch.amqp.IsClosed() {
				return
			}
			stop = b.sendNext(ctx, ch)
		}
	})
	return stop
}

// sendable reports whether there is a message to send and room for it.
func (b *batch) sendable() bool {
	if b.pilot.flies || b.forsaken {
		return false
	}
	if b.alone() {
		return len(b.flights) == 0
	}
	return !b.suspects.trial && len(b.flights)+b.given < window && len(b.ready) > 0
}

// sendNext sends the next message, or answers it if it cannot be sent.
func (b *batch) sendNext(ctx context.Context, ch *channel) error {
	from, alone := &b.ready, b.alone()
	if alone {
		from = &b.suspects.waiting
	}
	i := (*from)[0]
	m := &b.messages[i]
	if err := b.unusable(i); err != nil {
		*from = (*from)[1:]
		b.answer(i, err)
		return nil
	}
	if k := ch.conn.adopt(b.route(i), m); k != nil {
		*from = (*from)[1:]
		k.message, k.tick = i, b.tick
		b.adopted = append(b.adopted, k)
		return nil
	}
	if !alone && !b.mayGo(b.way(i)) {
		*from = (*from)[1:]
		b.aside = append(b.aside, i)
		return nil
	}
	if !alone && !ch.conn.carries(len(m.Payload)) {
		*from = (*from)[1:]
		b.suspect(i)
		return nil
	}
	confirm, err := ch.publish(b.route(i).exchange, m)
	if errors.Is(err, amqp091.ErrClosed) {
		return nil // not sent
	}
	*from = (*from)[1:]
	switch _, final := errors.AsType[*publisher.Error](err); {
	case err == nil:
		b.flights = append(b.flights, flight{message: i, confirm: confirm, tick: b.tick})
		b.launched(b.way(i))
		b.suspects.trial = alone
		if !alone && ch.untried(b.way(i)) {
			b.launchPilot(ctx, ch, b.way(i))
		}
	case final:
		b.answer(i, err)
	default:
		b.answer(i, unanswered(err))
		return ch.conn.lost()
	}
	return nil
}

// settle answers the messages that the broker has answered.
func (b *batch) settle(ch *channel) {
	b.settleKept()
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
		m := &b.messages[f.message]
		if f.answered && b.flying != nil {
			b.landed(b.way(f.message))
		}
		if f.answered {
			b.landPilot(ch, b.way(f.message))
		}
		switch {
		case !f.answered:
			open = append(open, f)
		case f.returned != nil:
			b.repeatable(f.message, b.named(f.message, returned(f.returned, b.names)))
		case f.confirm.Acked():
			ch.conn.accepted(len(m.Payload))
			if b.latest = max(b.latest, f.confirm.DeliveryTag); b.careful {
				b.caution.accepted(b.way(f.message))
			}
			b.noteConfirmed(f.message)
			b.answer(f.message, nil)
			b.acquit(f.message)
		case ch.closed():
			open = append(open, f)
		default:
			ch.stale = true
			b.repeatable(f.message, b.named(f.message, nacked(b.route(f.message))))
		}
	}
	b.flights = open
	if len(open) == 0 {
		b.suspects.trial = false
	}
}

// matchReturns matches the messages that the broker returned by id and route. It takes all messages that look alike: a
// message taken for returned is only sent again, but one that was missed would be lost.
func (b *batch) matchReturns(ch *channel) {
	if !ch.collect() {
		return
	}
	var matched []amqp091.Return
	for i := range b.flights {
		f := &b.flights[i]
		if r := ch.givenBack(b.route(f.message), b.messages[f.message].ID); r != nil {
			f.returned, matched = r, append(matched, *r)
		}
	}
	ch.forgetReturns(matched...)
}

// condemn gives a message the broker's verdict. A verdict on its route is remembered.
func (b *batch) condemn(i int, err error) {
	if publisher.ClassOf(err) == publisher.Topology || publisher.ClassOf(err) == publisher.Unavailable {
		if b.routes == nil {
			b.routes = map[route]error{}
		}
		at := b.route(i)
		if fate, _ := publisher.FateOf(err, at.topic); fate.Kind == publisher.FateExchange {
			at = b.way(i)
		}
		b.routes[at] = unsent(err)
	}
	b.answer(i, err)
}

// answer gives a message its answer. If the message was accepted, the next one of its key may be sent.
func (b *batch) answer(i int, err error) {
	b.answers[i] = err
	b.open--
	next := b.keys.Next[i]
	if next != keyorder.None && err == nil {
		b.ready = append(b.ready, int(next))
		return
	}
	for ; next != keyorder.None; next = b.keys.Next[next] {
		b.answers[next] = publisher.ErrNotAttempted
		b.open--
	}
}

// end answers all open messages: those that are or were in flight are Ambiguous, and those that were not sent get err.
func (b *batch) end(err error) {
	if errors.Is(err, publisher.ErrNotAttempted) && len(b.flights) > 0 {
		b.overdue()
	}
	b.keepAdopted(err)
	for _, f := range b.flights {
		b.answer(f.message, unanswered(err))
	}
	for _, i := range slices.Concat(b.suspects.waiting, b.aside, b.ready) {
		if b.suspects.doubts[i] > 0 {
			b.answer(i, unanswered(err))
		} else {
			b.answer(i, err)
		}
	}
}
