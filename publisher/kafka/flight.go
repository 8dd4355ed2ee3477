package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/outbox-relay/outbox-relay/internal/panics"
)

// dispatch sends what can be sent, dials for the rest, and checks for late answers. It returns the latest time of the
// next dispatch, or zero if only an event requires one.
func (b *broker) dispatch(ctx context.Context, now time.Time) (wake time.Time) {
	at := func(t time.Time) {
		if wake.IsZero() || t.Before(wake) {
			wake = t
		}
	}
	b.discard(func(c *conn) bool { return b.leaving || c.stale(now) })
	waiting := 0
	b.queue = slices.DeleteFunc(b.queue, func(r *request) bool {
		switch {
		case b.leaving:
			b.end(r, unreached, b.left())
		case r.group != nil && now.Before(b.state.paused):
			if err := b.tooLong(&b.state, r.deadline, now); err != nil {
				b.end(r, refused, err)
				return true
			}
			at(b.state.paused)
			return false
		case b.send(r, now):
		case b.state.failed != nil && !r.dial:
			b.wanted = true
			b.end(r, unreached, b.state.failed)
		default:
			if waiting++; r.group != nil {
				at(b.linger(r, now))
			}
			return false
		}
		return true
	})
	for _, r := range b.flights {
		if r.group == nil {
			continue
		}
		if !now.Before(r.late) {
			if r.late = now.Add(patience / 4); b.publisher.cluster.answers(b, r.since) {
				r.conn.abort()
			}
		}
		at(r.late)
	}
	if b.leaving {
		return wake
	}
	if next := b.dialFor(ctx, waiting, now); !next.IsZero() {
		at(next)
	}
	for _, c := range b.idle {
		at(c.used.Add(idleTimeout + time.Millisecond)) // time at which it is stale
	}
	return wake
}

// send sends the request if there is a connection, and reports whether the request has been handled.
func (b *broker) send(r *request, now time.Time) bool {
	c := b.take(now)
	if c == nil {
		return false
	}
	if r.group == nil && !c.understands(r.message) {
		b.idle = append(b.idle, c)
		b.end(r, refused, unsupported(r.message))
		return true
	}
	b.bound(r, now)
	_ = c.net.SetDeadline(now.Add(r.limit)) // the round trip shows an error
	r.conn, r.sent = c, now
	b.flights = append(b.flights, r)
	go func() {
		defer func() {
			if value := recover(); value != nil { // the library decodes what a broker has sent
				r.err = panics.Caught(value)
			}
			b.landed <- r
		}()
		r.response, r.err = c.protocol.RoundTrip(r.message)
	}()
	return true
}

// land handles a request whose round trip is over.
func (b *broker) land(r *request) {
	now := time.Now()
	b.flights = slices.DeleteFunc(b.flights, func(other *request) bool { return other == r })
	c := r.conn
	if r.err == nil {
		if response, ok := r.response.(*produce.Response); ok {
			b.answered(r, now)
			b.throttle(c, time.Duration(response.ThrottleTimeMs)*time.Millisecond, now)
		}
		b.keep(c, now)
		b.end(r, replied, nil)
		return
	}
	c.close()
	// Idle connections that were last used before the request was sent may have failed together with this one, as may
	// the broker.
	b.discard(func(c *conn) bool { return !c.used.After(r.sent) })
	switch {
	case r.group == nil:
		b.unanswered(r, now)
	case b.unheard(r, now):
		b.end(r, unheard, r.err)
	default:
		b.end(r, lost, r.err)
	}
}
