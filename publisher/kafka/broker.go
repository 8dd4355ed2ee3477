package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
	"github.com/outbox-relay/outbox-relay/publisher/internal/network"
)

// A broker is one address of the cluster: its connections, and what is known of its condition; see the package comment.
// All fields are guarded by the cluster's mu, so that a decision may depend on several brokers. A broker has no
// goroutine of its own: requests are sent by goroutines of their callers, and each dial has one.
type broker struct {
	cluster *cluster
	address string
	left    bool // neither the configuration nor the cluster names the address any more

	// Connections. One is enough while there is one call at a time; each further request that finds none idle dials.
	idle     []*conn    // connections without a request, the most recently used last
	busy     []*request // requests that are sent and not answered
	dialling *dial      // dial under way or about to begin; nil if there is none
	backoff  connect.Backoff
	retry    time.Time // earliest time of the next dial after a failed one
	failed   error     // why no request waits for a connection; nil if it may wait for the dial

	// Suspicion. What matters is whether a request was answered, not whether the broker accepts connections: a frozen
	// process, a full disk or a forgotten connection accept them for minutes.
	silences int       // number of consecutive requests without an answer; the broker is a suspect unless it is zero
	noted    time.Time // time at which the last of them was counted
	asking   *request  // the request that may wait for the answer of a suspect
	until    time.Time // time before which no request is sent to the suspect
	paused   time.Time // time before which the broker reads no produce request
	heard    time.Time // time of the last answer to a produce request

	// What the log says last. A state is logged when it begins and when it ends, however often it is met.
	away      bool      // the broker cannot be reached
	silent    bool      // the broker does not answer
	overQuota time.Time // last time that a long pause was requested; zero once that state is over
}

// A dial makes one connection. It is not bound to the request that has caused it: the request may be given up, and the
// connection serves the next one.
type dial struct {
	timer *time.Timer   // begins it
	begun time.Time     // zero before that
	done  chan struct{} // closed when it has ended
	err   error
}

// send performs a request and sets its outcome. It returns when the request is over, and soon after ctx has ended.
func (b *broker) send(ctx context.Context, r *request) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.posted = time.Now()
	for {
		c := b.acquire(ctx, cancel, r)
		if c == nil {
			return
		}
		stop := context.AfterFunc(ctx, c.abort)
		r.response, r.err = c.roundTrip(r.message)
		if !b.landed(ctx, r, c, stop()) {
			return
		}
	}
}

// acquire returns a connection for the request, which counts as sent then. It returns nil if the request is over
// without being sent. It waits for the end of a short pause, and for a dial unless the broker is away.
func (b *broker) acquire(ctx context.Context, giveUp func(), r *request) *conn {
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	for r.jobs != nil { // a pause concerns batches only
		now := time.Now()
		if err := b.refusal(r.deadline, now); err != nil {
			return b.end(r, refused, err)
		}
		if !now.Before(b.paused) {
			break
		}
		if b.await(ctx, nil, b.paused); ctx.Err() != nil {
			return b.end(r, withdrawn, ctx.Err())
		}
	}
	if r.jobs != nil && b.silences > 0 {
		b.asking = r
	}
	for {
		if ctx.Err() != nil {
			return b.end(r, withdrawn, ctx.Err())
		}
		if b.left {
			return b.end(r, unreached, b.failure("broker left", "the cluster does not name it any more",
				"look at its log if it should be there"))
		}
		now := time.Now()
		switch c := b.take(now); {
		case c != nil:
			if r.jobs == nil && !c.understands(r.message) {
				b.idle = append(b.idle, c)
				return b.end(r, refused, unsupported(r.message))
			}
			b.allow(r, now, giveUp)
			_ = c.net.SetDeadline(now.Add(r.limit)) // the round trip shows an error
			b.busy = append(b.busy, r)
			return c
		case b.failed != nil && !r.dial:
			b.dial(b.retry.Sub(now)) // so that the broker is known to be back when the rows are tried again
			return b.end(r, unreached, b.failed)
		}
		if d := b.awaitDial(ctx, r); d.err != nil && r.dial && d.begun.After(r.posted) {
			return b.end(r, unreached, d.err)
		}
	}
}

// awaitDial waits for the dial under way, for as long as is acceptable while other brokers answer. A dial that takes
// longer goes on, and the requests that come in the meantime do not wait for it.
func (b *broker) awaitDial(ctx context.Context, r *request) *dial {
	d := b.dial(0)
	late := r.posted.Add(r.within(patience, r.posted))
	next := late
	if now := time.Now(); !now.Before(late) {
		next = now.Add(patience / 4)
	}
	b.await(ctx, d.done, next)
	switch now := time.Now(); {
	case b.dialling != d || b.failed != nil || r.jobs == nil:
	case ctx.Err() != nil && now.Sub(r.posted) >= patience/4, !now.Before(late) && b.cluster.othersAnswer(b, r.since):
		b.failed = b.failure("no answer", "it has not accepted the connection yet",
			"check that it runs, and the network")
	}
	return d
}

// await waits, without the lock, until done is closed, a time has come, or ctx has ended.
func (b *broker) await(ctx context.Context, done <-chan struct{}, until time.Time) {
	b.cluster.mu.Unlock()
	defer b.cluster.mu.Lock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// landed notes the outcome of a round trip; whole is false if the connection may have been aborted. landed reports true
// for a question to be sent again, because its connection may have died while it was idle.
func (b *broker) landed(ctx context.Context, r *request, c *conn, whole bool) (again bool) {
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	now := time.Now()
	b.busy = slices.DeleteFunc(b.busy, func(other *request) bool { return other == r })
	if r.late != nil {
		r.late.Stop()
	}
	if r.err == nil {
		if response, ok := r.response.(*produce.Response); ok {
			b.answered(r, now)
			b.throttle(c, time.Duration(response.ThrottleTimeMs)*time.Millisecond, now)
		}
		if c.used, c.reused = now, true; whole && !b.left {
			b.idle = append(b.idle, c)
		} else {
			c.close()
		}
		b.end(r, replied, nil)
		return false
	}
	c.close()
	// Idle connections that were last used before the request was sent may have failed together with this one, as may
	// the broker.
	b.discard(func(c *conn) bool { return !c.used.After(r.sent) })
	switch timedOut := network.TimedOut(r.err); {
	case r.jobs != nil && b.unheard(r, now):
		b.end(r, unheard, r.err)
		return false
	case r.jobs != nil || ctx.Err() != nil:
	case timedOut && now.Sub(r.sent) >= askTimeout:
		r.err = b.mute()
		b.unreachable(r.err)
		b.dial(0)
	case c.reused && !timedOut:
		return true
	case b.cluster.publisher.config.SASL == nil && network.Ended(r.err):
		r.err = b.cluster.publisher.explain(b.address, stepRequest, r.err)
	}
	b.end(r, lost, r.err)
	return false
}

// end sets the outcome of a request. It returns nil.
func (b *broker) end(r *request, how ending, err error) *conn {
	if b.asking == r {
		b.asking = nil
	}
	r.ending, r.err = how, err
	return nil
}

// dial returns the dial under way, which begins after the pause at the latest. There is one at a time: the first
// connection shows whether the broker is there.
func (b *broker) dial(pause time.Duration) *dial {
	d := b.dialling
	if d == nil {
		d = &dial{done: make(chan struct{})}
		b.dialling = d
		d.timer = time.AfterFunc(max(pause, 0), func() { b.cluster.publisher.life.Start(func() { b.connect(d) }) })
	} else if pause <= 0 && d.begun.IsZero() && d.timer.Stop() {
		d.timer.Reset(0)
	}
	return d
}

// connect makes a connection. An unreachable broker is logged once, and only while other brokers are reachable: the
// caller reports that the whole cluster is unreachable.
func (b *broker) connect(d *dial) {
	p, mu := b.cluster.publisher, &b.cluster.mu
	mu.Lock()
	d.begun = time.Now()
	mu.Unlock()
	c, err := p.connect(p.life.Ctx, b.address)
	mu.Lock()
	defer mu.Unlock()
	b.dialling, d.err = nil, err
	close(d.done)
	switch {
	case p.life.Over() || b.left:
		if c != nil {
			c.close()
		}
		return
	case err != nil:
		b.unreachable(err)
		return
	case b.away:
		b.cluster.log.Info("kafka broker reachable again", "broker", b.address)
	}
	if b.backoff.Failed() {
		b.until = time.Time{} // a suspect that was away may have been restarted
	}
	b.backoff.Reset()
	b.failed, b.away = nil, false
	c.used = time.Now()
	b.idle = append(b.idle, c)
}

// unreachable notes that no connection could be made, or that a connection is of no use.
func (b *broker) unreachable(err error) {
	if !b.away && !b.cluster.allAway() {
		b.cluster.log.Warn("kafka broker unreachable", "broker", b.address, "error", err)
		b.away = true
	}
	b.failed = err
	b.retry = time.Now().Add(b.backoff.After(err))
}

// take removes an idle connection from which the broker reads and returns it, or nil. It is the most recently used one,
// so that those that are not needed become stale.
func (b *broker) take(now time.Time) *conn {
	b.discard(func(c *conn) bool { return c.stale(now) })
	for i := len(b.idle) - 1; i >= 0; i-- {
		if c := b.idle[i]; !now.Before(c.muted) {
			b.idle = slices.Delete(b.idle, i, i+1)
			return c
		}
	}
	return nil
}

// discard closes the unwanted idle connections.
func (b *broker) discard(unwanted func(*conn) bool) {
	b.idle = slices.DeleteFunc(b.idle, func(c *conn) bool {
		if unwanted(c) {
			c.close()
			return true
		}
		return false
	})
}

// failure returns the failure of a broker that has a reason but no error.
func (b *broker) failure(short, found, remedy string) error {
	return b.cluster.publisher.attempt(b.address).FailedAbsent(short, found, remedy, nil)
}
