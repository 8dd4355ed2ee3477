package amqp

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A batch is the state of one call of Publish. Of each key only the first unanswered message may be
// sent; it is either in ready, in alone, or in flight.
type batch struct {
	exchange string
	messages []publisher.Message
	answers  []error
	open     int   // messages without an answer
	next     []int // the following message of the same key, 0 for none

	ready   []int    // may be sent now, in this order
	flights []flight // sent on the channel and unanswered
	alone   []int    // unanswered on a channel that the broker has closed, likely culprits first
	trial   bool     // one of alone is in flight, or they are to be sent next
	doubted map[int]bool
	topics  map[string]error // topics that this call has found unusable
}

// A flight is a message on the wire.
type flight struct {
	message  int
	confirm  *amqp091.DeferredConfirmation
	answered bool
	returned *amqp091.Return
}

func newBatch(exchange string, messages []publisher.Message) *batch {
	b := &batch{
		exchange: exchange,
		messages: messages,
		answers:  make([]error, len(messages)),
		open:     len(messages),
		next:     make([]int, len(messages)),
		ready:    make([]int, 0, len(messages)),
		flights:  make([]flight, 0, min(window, len(messages))),
	}
	last := make(map[string]int, len(messages))
	for i := range messages {
		if key := messages[i].Key; key != nil {
			before, found := last[string(key)]
			last[string(key)] = i
			if found {
				b.next[before] = i
				continue
			}
		}
		b.ready = append(b.ready, i)
	}
	return b
}

// complete tells whether every message has its answer.
func (b *batch) complete() bool { return b.open == 0 }

// run publishes on the channel until all is answered or the broker closes the channel: then it
// returns nil, and what is still open needs another channel. It returns the answer for messages that
// were not sent when nothing more can be sent; what is in flight then has no answer.
func (b *batch) run(ctx context.Context, ch *channel) error {
	for {
		stop := b.send(ctx, ch)
		if len(b.flights) == 0 {
			return stop
		}
		select {
		case <-ch.woken:
			b.settle(ch)
		case <-ctx.Done():
			b.settle(ch)
			return publisher.ErrNotAttempted
		}
		if ch.closed() {
			return b.closed(ctx, ch)
		}
	}
}

// send publishes what is ready, as far as the window allows, and returns the answer for the rest
// when no more may be sent now.
func (b *batch) send(ctx context.Context, ch *channel) (stop error) {
	if !b.sendable() {
		return nil
	}
	ch.conn.socket.burst(ctx, func() {
		for b.sendable() && stop == nil {
			if ctx.Err() != nil {
				stop = publisher.ErrNotAttempted
				return
			}
			if stop = ch.conn.usable(); stop != nil || ch.amqp.IsClosed() {
				return
			}
			stop = b.sendNext(ch)
		}
	})
	return stop
}

// sendable tells whether there is a message to send and room for it.
func (b *batch) sendable() bool {
	if b.trial {
		return len(b.flights) == 0 && len(b.alone)+len(b.ready) > 0
	}
	return len(b.flights) < window && len(b.ready) > 0
}

func (b *batch) sendNext(ch *channel) error {
	from := &b.ready
	if b.trial = len(b.alone) > 0; b.trial {
		from = &b.alone
	}
	i := (*from)[0]
	m := &b.messages[i]
	if err := b.topics[m.Topic]; err != nil {
		*from = (*from)[1:]
		b.answer(i, err)
		return nil
	}
	confirm, err := ch.publish(b.exchange, m)
	if errors.Is(err, amqp091.ErrClosed) {
		return nil // not sent
	}
	*from = (*from)[1:]
	switch _, final := errors.AsType[*publisher.Error](err); {
	case err == nil:
		b.flights = append(b.flights, flight{message: i, confirm: confirm})
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
	for i := range b.flights {
		f := &b.flights[i]
		select {
		case <-f.confirm.Done():
			f.answered = true
		default:
		}
	}
	// A message's return comes before its confirm, so those of all that were just found answered are
	// here now; looking for them earlier could miss one.
	b.matchReturns(ch)
	open := b.flights[:0]
	for _, f := range b.flights {
		m := &b.messages[f.message]
		switch {
		case !f.answered:
			open = append(open, f)
		case f.returned != nil:
			b.condemn(f.message, returned(b.exchange, f.returned))
		case f.confirm.Acked():
			ch.conn.useful.Store(true)
			b.answer(f.message, nil)
		case ch.closed():
			open = append(open, f)
		default:
			b.condemn(f.message, nacked(m.Topic))
		}
	}
	b.flights = open
}

// matchReturns finds the messages that the broker gave back by id and topic, and takes all that look
// alike: a message returned needlessly is sent again, one missed would be lost.
func (b *batch) matchReturns(ch *channel) {
	for {
		select {
		case r, open := <-ch.returns:
			if !open {
				return
			}
			for i := range b.flights {
				m := &b.messages[b.flights[i].message]
				if m.ID == r.MessageId && m.Topic == r.RoutingKey {
					b.flights[i].returned = &r
				}
			}
		default:
			return
		}
	}
}

// closed sorts out what the end of a channel means for what was in flight on it. It returns the
// answer for messages that were not sent, or nil when they can be sent on another channel.
func (b *batch) closed(ctx context.Context, ch *channel) error {
	for _, f := range b.flights {
		select {
		case <-f.confirm.Done():
		case <-ctx.Done():
			return publisher.ErrNotAttempted
		}
	}
	b.settle(ch) // what was confirmed just before
	if ch.conn.amqp.IsClosed() || ch.cause == nil {
		return ch.conn.lost()
	}
	if ch.cause.Code == amqp091.NotFound {
		ch.conn.exchangeSeen.Store(false)
	}
	if len(b.flights) == 1 {
		i := b.flights[0].message
		b.condemn(i, guilty(b.exchange, &b.messages[i], ch.cause))
		b.flights = b.flights[:0]
		b.ready = append(b.alone, b.ready...) // found: the others may go together again
		b.alone, b.trial = nil, false
		return nil
	}
	if b.doubted == nil {
		b.doubted = map[int]bool{}
	}
	for _, f := range b.flights {
		b.doubted[f.message] = true
		b.alone = append(b.alone, f.message)
	}
	slices.SortStableFunc(b.alone, func(i, j int) int {
		return cmp.Compare(b.messages[j].Size(), b.messages[i].Size()) // mostly it is a size that is refused
	})
	b.flights, b.trial = b.flights[:0], len(b.alone) > 0
	return nil
}

// condemn answers a message with what the broker says of it; a verdict on its topic is remembered.
func (b *batch) condemn(i int, err error) {
	if publisher.ClassOf(err) == publisher.Topology || publisher.ClassOf(err) == publisher.Unavailable {
		if b.topics == nil {
			b.topics = map[string]error{}
		}
		b.topics[b.messages[i].Topic] = err
	}
	b.answer(i, err)
}

// answer gives a message its answer. The next of its key may be sent if it was accepted.
func (b *batch) answer(i int, err error) {
	b.answers[i] = err
	b.open--
	if b.next[i] == 0 {
		return
	}
	if err == nil {
		b.ready = append(b.ready, b.next[i])
		return
	}
	for i = b.next[i]; i != 0; i = b.next[i] {
		b.answers[i] = publisher.ErrNotAttempted
		b.open--
	}
}

// end answers everything that is open: what is or was in flight is Ambiguous, what was not sent gets
// err.
func (b *batch) end(err error) {
	for _, f := range b.flights {
		b.answer(f.message, unanswered(err))
	}
	for _, i := range slices.Concat(b.alone, b.ready) {
		if b.doubted[i] {
			b.answer(i, unanswered(err))
		} else {
			b.answer(i, err)
		}
	}
}
