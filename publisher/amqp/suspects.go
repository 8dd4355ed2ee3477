package amqp

import (
	"context"
	"slices"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// suspects are messages that are sent alone, because the broker answers some messages by closing the
// channel, and with it everything on it loses its answer. Either that has happened to them (then
// one of them was guilty), or they are larger than anything that the connection has carried, and the
// broker's limit is not known. The latter wait until nothing else is ready.
type suspects struct {
	waiting []int       // not in flight; the largest first
	trial   bool        // one is in flight
	urgent  bool        // some were in flight when a channel was closed: they go before what is ready
	doubts  map[int]int // how often a message lost its answer
	code    int         // what the channel was closed with
}

// alone tells whether the next message to be sent is a suspect.
func (b *batch) alone() bool {
	return len(b.suspects.waiting) > 0 && (b.suspects.urgent || len(b.ready) == 0)
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

// suspect lets a message wait to be sent alone. The largest go first: mostly it is a size that is
// refused, and if it is not, the answer speaks for all others.
func (b *batch) suspect(i int) {
	at, _ := slices.BinarySearchFunc(b.suspects.waiting, len(b.messages[i].Payload), func(j, size int) int {
		if len(b.messages[j].Payload) < size {
			return 1
		}
		return -1 // also for the same size, which comes behind
	})
	b.suspects.waiting = slices.Insert(b.suspects.waiting, at, i)
}

// acquit lets the suspects go that the message just accepted speaks for: those that are no larger when
// a size was refused, those of the same route when a route was. It speaks for a message only once, since
// the broker may have had another reason.
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

// unproven is the size of a payload in bytes from which on it is not sent together with others before
// one as large was accepted. Nobody limits messages to less.
const unproven = 16 << 10

// carries tells whether a payload of this size is known to be taken by the broker.
func (c *connection) carries(size int) bool {
	return size <= unproven || int64(size) <= c.largest.Load()
}

// accepted notes that the broker has taken a payload of this size.
func (c *connection) accepted(size int) {
	if !c.useful.Load() {
		c.useful.Store(true)
	}
	if size > unproven && int64(size) > c.largest.Load() {
		c.largest.Store(int64(size))
	}
}
