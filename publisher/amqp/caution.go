package amqp

import (
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

// caution limits the number of unanswered messages on routes where unanswered messages have led to copies. On such a
// route, a queue rejected messages that other queues may have taken, or a queue confirmed nothing. The limit begins
// with one, and each accepted message raises it by one. There are therefore no more copies than accepted messages,
// except for the one that tries.
type caution struct {
	mu     sync.Mutex
	routes map[route]careful
	begun  time.Time // time of the last begin
}

// careful is what is known of a route.
type careful struct {
	limit  int
	silent bool // messages were not confirmed while others were
}

const (
	mostCareful = 10_000           // maximum number of routes that are remembered; above it, some are forgotten
	carefulFor  = 10 * time.Minute // time after the last trouble for which routes are remembered
)

// known returns what is known of a route.
func (c *caution) known(to route) (careful, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.routes[to]
	return known, ok
}

// any reports whether any route must be treated with care.
func (c *caution) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.routes) > 0 && time.Since(c.begun) > carefulFor {
		c.routes = nil
	}
	return len(c.routes) > 0
}

// begin limits the route to one unanswered message.
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

// accepted raises the route's limit by one. The limit therefore doubles once that many messages have been accepted.
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

// landed notes that a message was answered, and makes the messages that were set aside ready again.
func (b *batch) landed(to route) {
	if n := b.flying[to]; n > 0 {
		b.flying[to] = n - 1
		b.callBack()
	}
}

// callBack puts the messages that were set aside before those that are ready.
func (b *batch) callBack() {
	if len(b.aside) > 0 {
		b.ready = append(b.aside, b.ready...)
		b.aside = nil
	}
}

// repeatable answers a message that some queues may have taken although the broker refused it.
func (b *batch) repeatable(i int, err error) {
	if publisher.Repeats(err) {
		b.caution.begin(b.way(i), false)
	}
	b.condemn(i, err)
}

// overdue answers the messages that were not confirmed in time. If nothing was accepted on a message's route, but
// messages sent after it were accepted, the state of the route is the cause: for example, a queue lacks the majority of
// its nodes.
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
		for open[i] = true; b.keys.Next[i] != keyorder.None; open[i] = true {
			i = int(b.keys.Next[i])
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
