package amqp

import (
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// caution limits how many messages are unanswered at a time on routes where that has cost copies: behind an exchange a queue
// rejected what others may have taken, or a queue confirmed nothing. It begins with one, and each that is accepted allows one
// more: so there are no more copies than accepted messages, but for the one that tries.
type caution struct {
	mu     sync.Mutex
	routes map[route]careful
	begun  time.Time // last
}

// careful is what is known of a route.
type careful struct {
	limit  int
	silent bool // messages were not confirmed while others were
}

const (
	mostCareful = 10_000           // routes that are remembered; beyond, some are forgotten
	carefulFor  = 10 * time.Minute // after the last trouble
)

// known returns what is known of a route.
func (c *caution) known(to route) (careful, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.routes[to]
	return known, ok
}

// any reports whether any route is to be treated with care.
func (c *caution) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.routes) > 0 && time.Since(c.begun) > carefulFor {
		c.routes = nil
	}
	return len(c.routes) > 0
}

// begin has one message at a time tried on the route.
func (c *caution) begin(to route, silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.routes == nil {
		c.routes = map[route]careful{}
	}
	for other := range c.routes {
		if len(c.routes) < mostCareful {
			break
		}
		delete(c.routes, other)
	}
	c.routes[to], c.begun = careful{limit: 1, silent: silent}, time.Now()
}

// accepted lets one more go at a time on the route, and so twice as many after all of them were accepted.
func (c *caution) accepted(to route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.routes[to]; ok {
		if known.limit++; known.limit > window {
			delete(c.routes, to)
			return
		}
		c.routes[to] = careful{limit: known.limit}
	}
}

// mayGo reports whether caution allows another message on the route.
func (b *batch) mayGo(to route) bool {
	if !b.careful {
		return true
	}
	known, ok := b.caution.known(to)
	return !ok || b.flying[to] < known.limit
}

// launched counts a message in flight on a route that is treated with care.
func (b *batch) launched(to route) {
	if !b.careful {
		return
	}
	if _, ok := b.caution.known(to); !ok {
		return
	}
	if b.flying == nil {
		b.flying = map[route]int{}
	}
	b.flying[to]++
}

// landed notes that a message was answered, and lets those that were set aside be looked at again.
func (b *batch) landed(to route) {
	if n := b.flying[to]; n > 0 {
		b.flying[to] = n - 1
		b.callBack()
	}
}

// callBack has those that were set aside go before what is ready.
func (b *batch) callBack() {
	if len(b.aside) > 0 {
		b.ready = append(b.aside, b.ready...)
		b.aside = nil
	}
}

// repeatable answers a message that some queues may have taken although the broker says no.
func (b *batch) repeatable(i int, err error) {
	if publisher.Repeats(err) {
		b.caution.begin(b.way(i), false)
	}
	b.condemn(i, err)
}

// overdue answers the messages that were not confirmed in time. Where nothing was accepted on a message's route, and what was
// sent after it has been accepted, it is the route's state: a queue lacks the majority of its nodes, say.
func (b *batch) overdue() {
	took := b.took()
	for _, f := range b.flights {
		to := b.way(f.message)
		known, _ := b.caution.known(to)
		silent := known.silent || !took[to] && f.confirm.DeliveryTag < b.latest
		b.caution.begin(to, silent)
		switch {
		case silent:
			b.answer(f.message, b.named(f.message, unconfirmed(b.route(f.message))))
		case !took[to] && b.latest > 0:
			b.answer(f.message, b.named(f.message, late(b.route(f.message))))
		default:
			b.answer(f.message, unanswered(publisher.ErrNotAttempted))
		}
	}
	b.flights = b.flights[:0]
}

// took returns the routes on which messages were accepted.
func (b *batch) took() map[route]bool {
	took := map[route]bool{}
	for i, open := range b.undecided() {
		if !open && b.answers[i] == nil {
			took[b.way(i)] = true
		}
	}
	return took
}

// undecided returns which messages have no answer yet.
func (b *batch) undecided() []bool {
	open := make([]bool, len(b.messages))
	mark := func(i int) {
		for open[i] = true; b.next[i] != 0; open[i] = true {
			i = b.next[i]
		}
	}
	for _, f := range b.flights {
		mark(f.message)
	}
	for _, k := range b.adopted {
		mark(k.message)
	}
	for _, i := range slices.Concat(b.suspects.waiting, b.aside, b.ready) {
		mark(i)
	}
	return open
}
