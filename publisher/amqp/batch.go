package amqp

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

const (
	// glance is how often a call looks for late answers.
	glance = 250 * time.Millisecond
	// glances is the number of looks without a confirm after which the confirms of a route are kept. A message that
	// tries a route is on its way for fewer.
	glances      = 4
	glancesTrial = 2
)

// A batch is the state of one call of Publish. Of each key, only the first unanswered message may be sent. It is in
// ready, held or in flight.
type batch struct {
	p        *Publisher
	stop     publisher.Stop // nothing more is sent after it is closed
	messages []publisher.Message
	answers  []error
	open     int // number of messages without an answer
	keys     keyorder.Order
	begun    time.Time
	patience time.Duration // how long the confirms of the call's messages are waited for, from then on

	ready   []int    // messages that may be sent now, in order
	held    []int    // messages that wait for answers to those in flight, because of their limit
	flights []flight // messages sent on the channel and unanswered

	exchanges map[string]error // exchanges that messages name, with what was found for each
	refusals  map[route]error  // ways that this call has found unusable
	closings  map[int]int      // number of channels that the broker has closed with the message in flight
	copied    map[int]bool     // messages that the broker may have already

	tick      int           // number of looks
	looked    time.Time     // time of the last look
	confirmed map[route]int // tick at which a route last confirmed
}

// A flight is a message on the wire.
type flight struct {
	message  int
	confirm  *amqp091.DeferredConfirmation
	answered bool
	returned *amqp091.Return
	tick     int  // tick at which the message was sent
	alone    bool // nothing else is sent until it is answered
}

// newBatch begins a call of the publisher.
func (p *Publisher) newBatch(ctx context.Context, messages []publisher.Message) *batch {
	b := &batch{
		p:        p,
		stop:     publisher.StopOf(ctx),
		messages: messages,
		answers:  make([]error, len(messages)),
		open:     len(messages),
		begun:    time.Now(),
		patience: keptFor,
		ready:    make([]int, 0, len(messages)),
		flights:  make([]flight, 0, min(window, len(messages))),

		exchanges: map[string]error{},
		refusals:  map[route]error{},
		closings:  map[int]int{},
		copied:    map[int]bool{},
		confirmed: map[route]int{},
	}
	if deadline, ok := ctx.Deadline(); ok {
		b.patience = time.Until(deadline)
	}
	b.keys.Link(messages)
	for i := range messages {
		if exchange := messages[i].Exchange; exchange != "" && checkExchangeName(exchange) == nil {
			b.exchanges[exchange] = nil
		}
		if !b.keys.Waits(i) {
			b.ready = append(b.ready, i)
		}
	}
	return b
}

// route returns the destination of a message.
func (b *batch) route(i int) route {
	m := &b.messages[i]
	if m.Exchange != "" {
		return route{m.Exchange, m.Topic}
	}
	return route{b.p.config.Exchange, m.Topic}
}

// unusable returns the reason why a message's route cannot be used, or nil if none is known.
func (b *batch) unusable(i int) error {
	return cmp.Or(b.exchanges[b.messages[i].Exchange], b.refusals[b.route(i)])
}

// lookForExchanges checks the exchanges before they are used. If an exchange that messages name is missing, only those
// messages are affected. Any other error is the answer for all messages that were not sent.
func (b *batch) lookForExchanges(ctx context.Context, conn *connection) error {
	if err := conn.checkExchange(ctx, b.p.config.Exchange, publisher.ScopeDestination); err != nil {
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

// run publishes on the channel until all messages are answered or another channel is needed. It then returns nil. If
// nothing more can be sent, run returns the answer for the messages that were not sent; messages in flight then have no
// answer.
func (b *batch) run(ctx context.Context, ch *channel) error {
	b.looked = time.Now()
	looking := time.NewTicker(glance)
	defer looking.Stop()
	for {
		full, stop := b.send(ctx, ch)
		if len(b.flights) == 0 && full == nil {
			return stop
		}
		select {
		case <-full:
		case <-ch.woken:
			b.settle(ch)
		case <-looking.C:
			b.settle(ch)
			b.look(ch)
		case <-ctx.Done():
			b.settle(ch)
			return publisher.ErrNotAttempted
		}
		if ch.closed() {
			return b.closed(ctx, ch)
		}
		if err := ch.conn.usable(); err != nil && !ch.conn.broken() {
			b.keepAll(ch, err)
		}
	}
}

// send publishes what may be sent now, as far as the window and the connection's queue allow. What goes alone is sent
// last, so that it delays nothing else. send returns a channel to wait for if the queue is full. If no more may be sent
// at all, it returns the answer for the rest.
func (b *batch) send(ctx context.Context, ch *channel) (full <-chan struct{}, stop error) {
	if b.trial() || ch.stale.Load() {
		return nil, nil
	}
	room := window - ch.unanswered()
	if room <= 0 {
		return nil, unavailable("no answer", "RabbitMQ at %s has not confirmed %d messages yet", ch.conn.address,
			window)
	}
	if len(b.held) > 0 { // an answer may have made room for them
		b.ready, b.held = append(b.held, b.ready...), nil
	}
	sender := &ch.conn.socket.sender
	sender.Burst(+1)
	defer sender.Burst(-1)
	for stop == nil && !b.trial() && !ch.stale.Load() && len(b.flights) < room {
		from := &b.ready
		if len(b.ready) == 0 {
			from = &b.held
		}
		switch {
		case len(*from) == 0, from == &b.held && len(b.flights) > 0:
			return nil, nil
		case ctx.Err() != nil || b.stop.Closed():
			return nil, publisher.ErrNotAttempted
		}
		if err := ch.conn.usable(); err != nil || ch.amqp.IsClosed() {
			return nil, err
		}
		if full = sender.Busy(); full != nil {
			return full, nil
		}
		stop = b.sendNext(ch, from)
	}
	return nil, stop
}

// trial reports whether a message in flight is to stay alone.
func (b *batch) trial() bool { return len(b.flights) > 0 && b.flights[0].alone }

// limit returns how many messages may be in flight on a message's route together with it. With 0, nothing else may be
// in flight on the channel.
func (b *batch) limit(conn *connection, i int, to route) int {
	if b.closings[i] > 1 || !conn.carries(len(b.messages[i].Payload)) {
		return 0
	}
	return b.p.routes.limit(to)
}

// sendNext sends the first message of from, or answers it if it cannot be sent, or holds it because of its limit.
// Messages of held are sent alone.
func (b *batch) sendNext(ch *channel, from *[]int) error {
	i := (*from)[0]
	m, to, alone := &b.messages[i], b.route(i), from == &b.held
	if err := b.unusable(i); err != nil {
		*from = (*from)[1:]
		b.answer(i, err)
		return nil
	}
	if b.remembered(i, to) {
		*from = (*from)[1:]
		return nil
	}
	if limit := b.limit(ch.conn, i, to); !alone && limit < window && (limit == 0 || b.flying(to) >= limit) {
		b.ready, b.held = b.ready[1:], append(b.held, i)
		return nil
	}
	confirm, err := ch.publish(to.exchange, m)
	if errors.Is(err, amqp091.ErrClosed) {
		return nil // not sent
	}
	*from = (*from)[1:]
	switch _, final := errors.AsType[*publisher.Error](err); {
	case err == nil:
		b.flights = append(b.flights, flight{message: i, confirm: confirm, tick: b.tick, alone: alone})
	case final:
		b.answer(i, err)
	default:
		b.answer(i, unanswered(err))
		return ch.conn.Lost()
	}
	return nil
}

// flying returns the number of messages in flight on a route.
func (b *batch) flying(to route) (n int) {
	for _, f := range b.flights {
		if b.route(f.message) == to {
			n++
		}
	}
	return n
}

// look is called repeatedly while a call waits. It lets the broker be greeted. If that is answered, and routes
// confirm nothing, they are not waited for: their confirms are kept.
func (b *batch) look(ch *channel) {
	quiet := ch.conn.QuietSince(b.looked)
	b.p.keeper.Look()
	if quiet {
		return
	}
	b.looked = time.Now()
	b.tick++
	most := glances
	if b.trial() {
		most = glancesTrial
	}
	stalls := map[route]bool{}
	for _, f := range b.flights {
		to := b.route(f.message)
		if b.tick-max(f.tick, b.confirmed[to]) >= most {
			stalls[to] = true
		}
	}
	if len(stalls) == 0 {
		return
	}
	ch.distrust()
	for to := range stalls {
		if b.p.routes.begin(to, 0); !b.took(to) {
			b.refuse(to, stalled(to))
		}
	}
	b.keep(ch, func(to route) (now, then error) {
		switch {
		case !stalls[to]:
			return nil, nil
		case b.took(to): // the message may be at fault
			return waiting(to), waiting(to)
		default:
			return stalled(to), stalled(to)
		}
	})
}

// took reports whether the route has confirmed a message of the call.
func (b *batch) took(to route) bool {
	_, ok := b.confirmed[to]
	return ok
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
// It then marks the answers of messages that may be at the broker twice.
func (b *batch) end(err error) {
	for _, f := range b.flights {
		to := b.route(f.message)
		if !errors.Is(err, publisher.ErrNotAttempted) || b.took(to) || len(b.confirmed) == 0 {
			b.answer(f.message, unanswered(err))
			continue
		}
		b.p.routes.begin(to, 1)
		b.answer(f.message, late(to)) // only the route's state can be the cause
	}
	for _, i := range slices.Concat(b.held, b.ready) {
		if b.copied[i] {
			b.answer(i, unanswered(err))
		} else {
			b.answer(i, err)
		}
	}
	for i := range b.copied {
		b.answers[i] = publisher.Republish(b.answers[i])
	}
}
