package amqp

import (
	"context"
	"slices"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// suspects are messages that are sent alone. The broker answers some messages by closing the channel, and everything on
// the channel then loses its answer. Either that has happened to the suspects, and one of them was guilty. Or they are
// larger than anything that the connection has carried, and the broker's limit is not known. The latter wait until
// nothing else is ready.
type suspects struct {
	waiting []int       // suspects not in flight, the largest first
	trial   bool        // one is in flight
	urgent  bool        // some were in flight when a channel was closed: they go before what is ready
	doubts  map[int]int // number of times that a message lost its answer
	code    int         // error code with which the channel was closed
}

// alone reports whether the next message to be sent is a suspect.
func (b *batch) alone() bool {
	return len(b.suspects.waiting) > 0 && (b.suspects.urgent || len(b.ready) == 0)
}

// closed decides what the end of a channel means for the messages that were in flight on it. It returns the answer for
// messages that were not sent, or nil if they can be sent on another channel.
func (b *batch) closed(ctx context.Context, ch *channel) error {
	for _, f := range b.flights {
		select {
		case <-f.confirm.Done():
		case <-ctx.Done():
			return publisher.ErrNotAttempted
		}
	}
	b.settle(ch) // messages that were confirmed just before
	if ch.conn.amqp.IsClosed() || ch.cause == nil {
		return ch.conn.lost()
	}
	if ch.cause.Code == amqp091.NotFound {
		ch.conn.forgetExchanges()
	}
	if ch.cause.Code == amqp091.AccessRefused {
		ch.conn.refused.Store(true)
	}
	clear(b.flying)
	b.callBack()
	s := &b.suspects
	s.trial, s.code = false, ch.cause.Code
	if len(b.flights) == 1 {
		i := b.flights[0].message
		b.flights = b.flights[:0]
		b.condemn(i, guilty(b.route(i).exchange, &b.messages[i], ch.cause))
		b.ready = append(s.waiting, b.ready...) // found: the others may go together again
		s.waiting, s.urgent = nil, false
		return nil
	}
	if s.doubts == nil {
		s.doubts = map[int]int{}
	}
	for _, f := range b.flights {
		s.doubts[f.message]++
		b.suspect(f.message)
	}
	b.flights, s.urgent = b.flights[:0], len(s.waiting) > 0
	return nil
}

// suspect makes a message wait to be sent alone. The largest messages go first: in most cases a size is refused, and if
// not, the answer applies to all others.
func (b *batch) suspect(i int) {
	at, _ := slices.BinarySearchFunc(b.suspects.waiting, len(b.messages[i].Payload), func(j, size int) int {
		if len(b.messages[j].Payload) < size {
			return 1
		}
		return -1 // a message of the same size is inserted after those already there
	})
	b.suspects.waiting = slices.Insert(b.suspects.waiting, at, i)
}

// acquit releases the suspects for which the acceptance of a message is evidence. If a size was refused, these are the
// suspects that are no larger; if a route was refused, those of the same route. A message is released in this way only
// once, because the broker may have had another reason.
func (b *batch) acquit(accepted int) {
	s := &b.suspects
	if !s.trial {
		return
	}
	size, to := len(b.messages[accepted].Payload), b.route(accepted)
	s.waiting = slices.DeleteFunc(s.waiting, func(i int) bool {
		clear := len(b.messages[i].Payload) <= size
		switch {
		case s.doubts[i] > 1:
			return false
		case s.doubts[i] == 1 && (s.code == amqp091.AccessRefused || s.code == amqp091.NotFound):
			clear = b.route(i) == to
		case s.doubts[i] == 1 && s.code != amqp091.PreconditionFailed && s.code != amqp091.ContentTooLarge:
			return false
		}
		if clear {
			b.ready = append(b.ready, i)
		}
		return clear
	})
	s.urgent = s.urgent && len(s.waiting) > 0
}

// unproven is the payload size in bytes above which a message is not sent together with others until one as large has
// been accepted. Lower limits are not used in practice.
const unproven = 16 << 10

// carries reports whether the broker is known to accept a payload of this size.
func (c *connection) carries(size int) bool {
	return size <= unproven || int64(size) <= c.largest.Load()
}

// accepted notes that the broker has accepted a payload of this size.
func (c *connection) accepted(size int) {
	c.accepts.Add(1)
	if size > unproven && int64(size) > c.largest.Load() {
		c.largest.Store(int64(size))
	}
}
