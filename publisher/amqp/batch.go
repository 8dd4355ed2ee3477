package amqp

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

const (
	// glance is how often a call looks for late answers. A healthy broker confirms within some milliseconds, so that
	// most calls never look.
	glance = 250 * time.Millisecond
	// glances is the number of looks without a confirm after which the confirms of a route are kept: a second in all.
	// A queue between leaders confirms nothing for some seconds, and messages of other queues do not wait for that. A
	// message that tries a route is on its way for fewer.
	glances      = 4
	glancesTrial = 2
)

// A batch is the state of one call of Publish. Of each key, only the first unanswered message may be sent. It is in
// ready, held or in flight. All of it belongs to the goroutine of Publish. The keys, routes and texts are the caller's
// and valid until Publish returns; what outlives the call is copied by the tables that keep it.
type batch struct {
	p        *Publisher
	stop     publisher.Stop // nothing more is sent after it is closed
	messages []publisher.Message
	answers  []error
	keys     keyorder.Order
	begun    time.Time
	patience time.Duration // how long the confirms of the call's messages are waited for, from then on

	ready   []int    // messages that may be sent now, in order
	held    []int    // messages that wait for answers to those in flight, because of their limit
	flights []flight // messages sent on the channel and unanswered

	exchanges map[string]error // exchanges that messages name, with what was found for each
	refusals  map[route]error  // ways that this call has found unusable
	copied    map[int]int      // messages that the broker may have already: number of tries with an unknown outcome

	tick      int           // number of looks
	looked    time.Time     // time of the last look
	confirmed map[route]int // tick at which a route last confirmed
}

// A flight is a message on the wire. It leaves the list with its answer, or with its place in the table of kept
// confirms.
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
		answers:  slices.Repeat([]error{publisher.ErrNotAttempted}, len(messages)),
		begun:    time.Now(),
		patience: keptFor,
		ready:    make([]int, 0, len(messages)),
		flights:  make([]flight, 0, min(window, len(messages))),

		exchanges: map[string]error{},
		refusals:  map[route]error{},
		copied:    map[int]int{},
		confirmed: map[route]int{},
	}
	if deadline, ok := ctx.Deadline(); ok {
		b.patience = time.Until(deadline)
	}
	b.keys.Link(messages)
	for i := range messages {
		exchange := messages[i].Exchange
		if exchange != "" && len(exchange) <= maxShortString && !strings.ContainsAny(exchange, "\r\n") {
			b.exchanges[exchange] = nil // the writer refuses the others
		}
		// The others of a key become ready one by one (see answer).
		if !b.keys.Waits(i) {
			b.ready = append(b.ready, i)
		}
	}
	return b
}

// route returns the destination of a message. A message whose row names an exchange goes there, and any other to the
// configured one.
func (b *batch) route(i int) route {
	m := &b.messages[i]
	if m.Exchange != "" {
		return route{m.Exchange, m.Topic}
	}
	return route{b.p.config.Exchange, m.Topic}
}

// unusable returns the reason why a message's route cannot be used, or nil if none is known. What is found for an
// exchange or a route in a call holds for the rest of the call: the next messages are not sent to learn it again.
func (b *batch) unusable(i int) error {
	return cmp.Or(b.exchanges[b.messages[i].Exchange], b.refusals[b.route(i)])
}

// lookForExchanges checks the exchanges before they are used. If an exchange that messages name is missing, only those
// messages are affected. Any other error is the answer for all messages that were not sent. Without that look, the
// first message to a missing exchange would close the channel under up to a thousand others.
func (b *batch) lookForExchanges(ctx context.Context, conn *connection) error {
	if err := conn.checkExchange(ctx, b.p.config.Exchange, false, false); err != nil {
		return err
	}
	for name, known := range b.exchanges {
		if known != nil {
			continue
		}
		err := conn.checkExchange(ctx, name, true, false)
		if publisher.ClassOf(err) == publisher.Topology {
			b.exchanges[name] = err
		} else if err != nil {
			return err
		}
	}
	return nil
}

// runOn runs on a channel and gives it back, also after a panic. Without this, nobody could publish after some of them.
func (b *batch) runOn(ctx context.Context, ch *channel) (err error) {
	clean := false
	defer func() { ch.conn.put(ch, clean) }()
	err = b.run(ctx, ch)
	clean = len(b.flights) == 0
	return err
}

// run publishes on the channel until all messages are answered or another channel is needed. It then returns nil. If
// nothing more can be sent, run returns the answer for the messages that were not sent; messages in flight then have no
// answer.
//
// It waits for one event at a time: room in the connection's queue, a sign that answers may have come, the time to look
// for routes that confirm nothing, and the end of the call.
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
		// The broker blocks or is silent, and may yet answer what it has. If the connection has ended, the channel has,
		// too, and closed handles it.
		if err := ch.conn.usable(); err != nil && !ch.conn.broken() {
			b.keepAll(ch, err)
		}
	}
}

// send publishes what may be sent now, as far as the window and the connection's queue allow. What goes alone is sent
// last, so that it delays nothing else. send returns a channel to wait for if the queue is full. If no more may be sent
// at all, it returns the answer for the rest. The writes of one send are a burst, so that the socket gathers them: the
// library flushes after each message, which cost up to a fifth of the client's processor time.
func (b *batch) send(ctx context.Context, ch *channel) (full <-chan struct{}, stop error) {
	if b.trial() || ch.stale.Load() {
		return nil, nil
	}
	// Confirms that are kept may still bring returns, for which the channel must have room.
	room := window - ch.unanswered()
	if room <= 0 {
		return nil, unavailable("no answer", "RabbitMQ at %s has not confirmed %d messages yet", ch.conn.address,
			window)
	}
	if len(b.held) > 0 { // an answer may have made room for them
		b.ready, b.held = append(b.held, b.ready...), nil
	}
	socket := ch.conn.socket
	socket.Burst(+1)
	defer socket.Burst(-1)
	for stop == nil && !b.trial() && !ch.stale.Load() && len(b.flights) < room {
		from := &b.ready
		if len(b.ready) == 0 {
			from = &b.held
		}
		switch {
		case len(*from) == 0, from == &b.held && len(b.flights) > 0:
			return nil, nil
		// The messages in flight are waited for all the same: run returns only when there are none, or ctx has ended.
		case ctx.Err() != nil || b.stop.Closed():
			return nil, publisher.ErrNotAttempted
		}
		if err := ch.conn.usable(); err != nil || ch.amqp.IsClosed() {
			return nil, err
		}
		if full = socket.Busy(); full != nil {
			return full, nil
		}
		stop = b.sendNext(ch, from)
	}
	return nil, stop
}

// trial reports whether a message in flight is to stay alone.
func (b *batch) trial() bool { return len(b.flights) > 0 && b.flights[0].alone }

// RabbitMQ does not tell its max_message_size, 16 MiB by default, and closes the channel for a larger payload. Payloads
// above some size are therefore sent with nothing else on their channel: firstLarge, or half of what was refused, if
// that is less. RabbitMQ's code has other reasons as well, so the size never becomes less than leastLarge.
const (
	firstLarge = 1 << 20
	leastLarge = 16 << 10
)

// limit returns how many messages may be in flight on a message's route together with it. With 0, nothing else may be
// in flight on the channel.
func (b *batch) limit(i int, to route) int {
	if b.copied[i] > 1 || int64(len(b.messages[i].Payload)) > b.p.large.Load() {
		return 0
	}
	return b.p.routes.limit(to)
}

// sendNext sends the first message of from, or answers it if it cannot be sent, or holds it because of its limit.
// Messages of held are sent alone. An error that ends the connection is returned, and the message is ambiguous: part of
// it may have been written.
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
	// A message of held is sent whatever its limit, because nothing else is in flight then.
	if limit := b.limit(i, to); !alone && limit < window && (limit == 0 || b.flying(to) >= limit) {
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

// flying returns the number of messages in flight on a route. It is asked only on routes with a limit, of which a call
// has few.
func (b *batch) flying(to route) (n int) {
	for _, f := range b.flights {
		if b.route(f.message) == to {
			n++
		}
	}
	return n
}

// look is called repeatedly while a call waits. It lets the broker be greeted. If that is answered, and routes confirm
// nothing, they are not waited for: their confirms are kept. If not even the greeting is answered, the connection is in
// doubt and not the routes, and the keeper decides about it. The limit of 0 has the next try of such a route go alone,
// so that a queue in trouble holds up nothing else on its channel.
func (b *batch) look(ch *channel) {
	quiet := ch.conn.QuietSince(b.looked)
	b.p.keeper.Look()
	if quiet {
		return
	}
	b.looked = time.Now()
	b.tick++
	most := glances
	if b.trial() && b.p.routes.limit(b.route(b.flights[0].message)) < window { // otherwise it is only large
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
	b.keep(ch, nil, func(to route) error {
		switch {
		case !stalls[to]:
			return nil
		case b.took(to): // the message may be at fault
			return waiting(to)
		default:
			return stalled(to)
		}
	})
}

// took reports whether the route has confirmed a message of the call. If it has, the route works, and a late confirm
// concerns its message alone.
func (b *batch) took(to route) bool {
	_, ok := b.confirmed[to]
	return ok
}

// answer gives a message its answer. If the message was accepted, the next one of its key may be sent. After any other
// answer, the rest of the key stays not attempted: of each key, the accepted messages are a prefix of those given.
func (b *batch) answer(i int, err error) {
	b.answers[i] = err
	if next := b.keys.Next[i]; next != keyorder.None && err == nil {
		b.ready = append(b.ready, int(next))
	}
}

// done reports whether nothing is left to be sent or answered.
func (b *batch) done() bool { return len(b.ready)+len(b.held)+len(b.flights) == 0 }

// end answers all open messages: those that are or were in flight are Ambiguous, and those that were not sent get err.
// It then marks the answers of messages that may be at the broker twice.
func (b *batch) end(err error) {
	for _, f := range b.flights {
		b.answer(f.message, unanswered(err))
	}
	for _, i := range slices.Concat(b.held, b.ready) {
		// Such a message lost its channel in this call. It may be at the broker, and is not on the wire any more. Its
		// answer counts one of its copies.
		if b.copied[i] > 0 {
			b.answer(i, unanswered(err))
			b.copied[i]--
		} else {
			b.answer(i, err)
		}
	}
	for i, copies := range b.copied {
		if copies > 0 {
			b.answers[i] = publisher.Republish(b.answers[i])
		}
	}
}
