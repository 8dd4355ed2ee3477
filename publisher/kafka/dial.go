package kafka

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/panics"
)

const (
	minBackoff = 50 * time.Millisecond
	// maxBackoff is short, as whoever calls has a backoff of its own: rows are to flow within a second
	// of the broker being back.
	maxBackoff = 250 * time.Millisecond
)

// A dialled is what became of a dial.
type dialled struct {
	conn  *conn
	err   error
	begun time.Time
}

// dialFor dials for so many requests that wait for a connection, as far as no dial is under way for them. One connection shows
// whether the broker is there; only then more are made. Where the last dial has failed the next one waits for the end of the
// backoff, unless a request asks for it. It returns when that is.
func (b *broker) dialFor(ctx context.Context, waiting int, now time.Time) (next time.Time) {
	if b.state.failed != nil || len(b.idle)+len(b.flights) == 0 {
		waiting = min(waiting, 1)
	}
	if waiting == 0 && (b.verify || b.state.failed != nil && b.wanted) && b.dialling == 0 {
		if !b.verify && now.Before(b.retry) {
			return b.retry
		}
		waiting = 1
	}
	for b.dialling < waiting {
		b.dialling++
		b.wanted, b.verify = false, false
		go func() {
			d := dialled{begun: now}
			defer func() {
				if value := recover(); value != nil {
					d.err = b.publisher.explain(b.address, stepVersions, panics.Caught(value))
				}
				b.dials <- d
			}()
			d.conn, d.err = b.publisher.connect(ctx, b.address)
		}()
	}
	return time.Time{}
}

// dialled notes the outcome of a dial. A broker that is away is logged once, and only while others are
// there: that the whole cluster is away is the caller's to say.
func (b *broker) dialled(d dialled) {
	b.dialling--
	if d.err != nil {
		if !b.leaving { // else it says nothing of the broker
			b.unreachable(d.err)
			b.queue = slices.DeleteFunc(b.queue, func(r *request) bool {
				past := r.dial && !r.posted.After(d.begun) // later ones wait for another dial
				if past {
					b.end(r, unreached, d.err)
				}
				return past
			})
		}
		return
	}
	if b.away {
		b.publisher.log.Info("kafka broker reachable again", "broker", b.address)
	}
	if b.state.failures > 0 {
		b.state.until = time.Time{} // a suspect that was away may have come back as another one
	}
	b.state.failures, b.state.failed, b.away = 0, nil, false
	d.conn.used = time.Now()
	b.idle = append(b.idle, d.conn)
}

// unreachable notes that no connection could be made, or that one is of no use.
func (b *broker) unreachable(err error) {
	if !b.away && !b.publisher.cluster.unreachable() {
		b.publisher.log.Warn("kafka broker unreachable", "broker", b.address, "error", err)
		b.away = true
	}
	backoff := maxBackoff
	if b.state.failures < 5 {
		backoff = min(minBackoff<<b.state.failures, maxBackoff)
	}
	b.state.failures++
	b.state.failed = err
	b.retry = time.Now().Add(backoff/2 + rand.N(backoff/2))
}

// linger has a request wait for a connection, for so long as may be while other brokers answer. It returns when to look again.
func (b *broker) linger(r *request, now time.Time) (next time.Time) {
	if next = r.posted.Add(r.within(patience, r.posted)); now.Before(next) {
		return next
	}
	if b.publisher.cluster.answers(b, r.since) {
		b.state.failed = b.slow()
		return now
	}
	return now.Add(patience / 4)
}

// slow is the answer while a dial takes long: the dial goes on for as long as it takes.
func (b *broker) slow() error {
	return &linkError{short: "no answer", address: b.address, found: "it has not accepted the connection yet",
		remedy: "check that it runs, and the network"}
}

// left is the answer of a broker that does not take requests any more.
func (b *broker) left() error {
	return &linkError{short: "broker left", address: b.address, found: "the cluster does not name it any more", remedy: "look at its log if it should be there"}
}
