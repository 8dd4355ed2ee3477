package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/panics"
)

// A dialled is the outcome of a dial.
type dialled struct {
	conn  *conn
	err   error
	begun time.Time
}

// dialFor dials for the given number of requests that wait for a connection, except for those that a dial under way
// will serve. The first connection shows whether the broker is there; only then are more made. If the last dial has
// failed, the next one waits for the end of the backoff, unless a request asks for it. dialFor returns the time of the
// next dial.
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

// dialled notes the outcome of a dial. An unreachable broker is logged once, and only while other brokers are
// reachable. The caller reports that the whole cluster is unreachable.
func (b *broker) dialled(d dialled) {
	b.dialling--
	if d.err != nil {
		if !b.leaving { // while leaving, the error implies nothing about the broker
			b.unreachable(d.err)
			b.queue = slices.DeleteFunc(b.queue, func(r *request) bool {
				past := r.dial && !r.posted.After(d.begun) // later requests wait for another dial
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
	if b.state.backoff.Failed() {
		b.state.until = time.Time{} // a suspect that was away may have been restarted
	}
	b.state.backoff.Reset()
	b.state.failed, b.away = nil, false
	d.conn.used = time.Now()
	b.idle = append(b.idle, d.conn)
}

// unreachable notes that no connection could be made, or that a connection is of no use.
func (b *broker) unreachable(err error) {
	if !b.away && !b.publisher.cluster.unreachable() {
		b.publisher.log.Warn("kafka broker unreachable", "broker", b.address, "error", err)
		b.away = true
	}
	b.state.failed = err
	b.retry = time.Now().Add(b.state.backoff.After(err))
}

// linger makes a request wait for a connection, for as long as is acceptable while other brokers answer. It returns the
// time of the next check.
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

// slow returns the answer while a dial takes long. The dial itself goes on until it ends.
func (b *broker) slow() error {
	return b.publisher.failed(b.address, "no answer", "it has not accepted the connection yet",
		"check that it runs, and the network")
}

// left returns the answer of a broker that no longer takes requests.
func (b *broker) left() error {
	return b.publisher.failed(b.address, "broker left", "the cluster does not name it any more",
		"look at its log if it should be there")
}
