package amqp

import (
	"strings"
	"sync"
	"time"
)

// A route is the destination of a message within the broker.
type route struct{ exchange, topic string }

func (r route) clone() route { return route{strings.Clone(r.exchange), strings.Clone(r.topic)} }

// routes is the table of the routes on which a try may leave something behind. It is shared by all calls. Its lock is
// held for a look-up only; a message on a broker in good order finds an empty map.
type routes struct {
	mu    sync.Mutex
	known map[route]*wary
}

// wary is what is known of a route that has been in trouble. A route that was never in trouble has no entry, and no
// limit.
type wary struct {
	// limit is the number of unanswered messages that a call may have on the route. With 0, a message of the route goes
	// alone on its channel. There are therefore no more copies than accepted messages, except for the one that tries.
	limit    int
	rejected int       // number of calls in a row with negative confirms
	until    time.Time // the route is forgotten after that
}

const (
	mostRoutes = 10_000           // maximum number of routes that are remembered; above it, any are forgotten
	waryFor    = 10 * time.Minute // time after the last trouble for which a route is remembered

	// stubborn is the number of rejected calls in a row after which each further try of a full queue may count as a
	// copy, because overflow reject-publish-dlx gives a copy of each rejected message to another queue. Tries become
	// rarer from then on. The relay makes so many in about ten seconds.
	stubborn = 20
)

// limit returns the limit of a route, or the window if there is none. The caller's call has so many messages in flight
// at most; with two calls at a time there may be twice as many.
func (r *routes) limit(to route) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch known := r.known[to]; {
	case known == nil:
		return window
	case time.Now().After(known.until):
		delete(r.known, to)
		return window
	default:
		return known.limit
	}
}

// begin limits a route. The trouble lasts for waryFor from now on. Copies are bounded by that: after a trouble, one
// message tries, then two, and so on, instead of a window of 1,000.
func (r *routes) begin(to route, limit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at(to).limit = limit
}

// rejected limits a route to one message, because of a negative confirm, the first of its call or another one. It
// returns the number of calls in a row that had any. Calls are counted and not messages: what a call has in flight on
// the route is rejected together.
func (r *routes) rejected(to route, first bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.at(to)
	if known.limit = 1; first {
		known.rejected++
	}
	return known.rejected
}

// at returns the entry of a route that is in trouble now. r.mu is held. The key is copied, because the caller's texts
// are those of a row. If there is no room, any other entry goes: its route may then leave a window of copies once more.
func (r *routes) at(to route) *wary {
	if r.known == nil {
		r.known = map[route]*wary{}
	}
	known := r.known[to]
	if known == nil {
		for other := range r.known {
			if len(r.known) < mostRoutes {
				break
			}
			delete(r.known, other)
		}
		known = &wary{}
		r.known[to.clone()] = known
	}
	known.until = time.Now().Add(waryFor)
	return known
}

// accepted raises the limit of a route by one. The limit therefore doubles once that many messages have been accepted.
// Above the window, the route is forgotten: it is as good as any other.
func (r *routes) accepted(to route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.known[to]; known != nil {
		known.rejected = 0
		if known.limit++; known.limit > window {
			delete(r.known, to)
		}
	}
}
