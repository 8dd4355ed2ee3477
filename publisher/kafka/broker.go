package kafka

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// A broker is one address of the cluster: its connections, and what is known of its condition; see the package comment.
// All fields are guarded by the cluster's mu, so that a decision may depend on several brokers. A broker has no
// goroutine of its own: requests are sent by goroutines of their callers, and each dial has one.
type broker struct {
	cluster *cluster
	address string

	// Connections. One is enough while there is one call at a time; each further request that finds none idle dials.
	idle     []*conn // connections without a request, the most recently used last
	dialling *dial   // dial under way; nil if there is none
	backoff  connect.Backoff
	retry    time.Time // earliest time of the next dial after a failed one
	failed   error     // why no request waits for a connection; nil if it may wait for the dial

	// Suspicion. What matters is whether a request was answered, not whether the broker accepts connections: a frozen
	// process, a full disk or a forgotten connection accept them for minutes.
	silences int       // number of consecutive requests without an answer; the broker is a suspect unless it is zero
	asking   *request  // the request that may wait for the answer of a suspect
	until    time.Time // time before which no request is sent to the suspect
	paused   time.Time // time before which the broker reads no produce request
	heard    time.Time // time of the last answer to a produce request
}

// A dial makes one connection. It is not bound to the request that has caused it: the request may be given up, and the
// connection serves the next one. A dial ends by itself within dialTimeout, or with Close.
type dial struct {
	begun time.Time
	done  chan struct{} // closed when it has ended
	err   error
}

// send performs a request and sets its outcome. It returns when the request is over, and soon after ctx has ended. It
// runs in a goroutine of the call and is the only one that writes to the request meanwhile.
//
// It waits for the end of a short pause, and for a dial unless the broker is away. While it waits, the condition of the
// broker may change, so everything is looked at again after each wait.
func (b *broker) send(ctx context.Context, r *request) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	r.final = false
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	for {
		now := time.Now()
		if r.err = cmp.Or(ctx.Err(), b.refusal(ctx, now)); r.err != nil {
			r.final = true
			return
		}
		if !now.Before(b.paused) {
			break
		}
		b.await(ctx, nil, b.paused)
	}
	if b.silences > 0 {
		b.asking = r
		defer func() { b.asking = nil }()
	}
	c, err := b.connection(ctx, false)
	if err != nil {
		r.err = b.unavailable(shortOf(err), "%w", err)
		return
	}
	b.allow(ctx, r, giveUp) // from now on it counts as sent
	b.cluster.mu.Unlock()
	m, err := c.roundTrip(ctx, r.message, r.limit)
	b.cluster.mu.Lock()
	now := time.Now()
	r.late.Stop()
	if err == nil {
		r.response, _ = m.(*produce.Response)
		b.answered(r, now)
		// The broker has answered, but may ask for a pause (KIP-219) and then reads nothing more from the connection
		// until its end, not even a question. Quotas are counted by each broker for itself.
		pause := time.Duration(r.response.ThrottleTimeMs) * time.Millisecond
		if pause > 0 {
			b.paused = now.Add(pause)
		}
		if pause > maxThrottle {
			c.close()
		} else {
			b.put(c)
		}
		return
	}
	b.spoil(c, r.sent)
	if r.final = connect.TimedOut(err) && b.unheard(r, now); r.final {
		r.err = b.quiet()
	} else {
		r.err = b.unavailable(shortOf(err), "%w", err)
	}
}

// connection returns an idle connection. If there is none, it waits for a dial. If the broker is away, it begins a dial
// in the background, and waits for it only if insist is true. A dial that takes long while there are other brokers goes
// on, and the requests that come in the meantime do not wait for it. The cluster's mu is held.
func (b *broker) connection(ctx context.Context, insist bool) (*conn, error) {
	for {
		now := time.Now()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if c := b.take(now); c != nil {
			return c, nil
		}
		if d := b.dialling; d != nil && b.failed == nil && len(b.cluster.nodes) > 1 && now.Sub(d.begun) >= patience {
			b.failed = b.mute()
		}
		if b.failed != nil && !insist {
			b.redial(now)
			return nil, b.failed
		}
		d := b.dial()
		if b.await(ctx, d.done, now.Add(patience/4)); d.err != nil {
			return nil, d.err
		}
	}
}

// await waits, without the lock, until done is closed, a time has come, or ctx has ended. A caller that holds the lock
// has to look again at whatever it knew before.
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

// put takes back a connection on which an answer has come.
func (b *broker) put(c *conn) {
	c.used, c.reused = time.Now(), true
	b.idle = append(b.idle, c)
}

// spoil closes a connection on which a request has failed: an answer to it may still come. It also closes the idle ones
// that were last used before the request was sent: they may have failed together with this one, as may the broker.
func (b *broker) spoil(c *conn, sent time.Time) {
	c.close()
	b.discard(func(c *conn) bool { return !c.used.After(sent) })
}

// dial returns the dial under way. There is one at a time: the first connection shows whether the broker is there.
func (b *broker) dial() *dial {
	if b.dialling == nil {
		d := &dial{begun: time.Now(), done: make(chan struct{})}
		b.dialling = d
		b.cluster.publisher.life.Start(func() { b.connect(d) })
	}
	return b.dialling
}

// redial dials a broker that could not be reached if the backoff has passed, so that it is known to be back when the
// rows are tried again.
func (b *broker) redial(now time.Time) {
	if !now.Before(b.retry) {
		b.dial()
	}
}

// connect makes a connection. If there is none, the rows that need it are held, and the relay logs why.
func (b *broker) connect(d *dial) {
	p, mu := b.cluster.publisher, &b.cluster.mu
	c, err := p.connect(p.life.Ctx, b.address)
	mu.Lock()
	defer mu.Unlock()
	b.dialling, d.err = nil, err
	close(d.done)
	switch {
	case p.life.Over():
		if c != nil {
			c.close()
		}
		return
	case err != nil: // no connection could be made, or the connection is of no use
		b.failed, b.retry = err, time.Now().Add(b.backoff.Next())
		return
	}
	if b.backoff.Failed() {
		b.until = time.Time{} // a suspect that was away may have been restarted
	}
	b.backoff.Reset()
	b.failed = nil
	c.used = time.Now()
	b.idle = append(b.idle, c)
}

// take removes an idle connection and returns it, or nil. It is the most recently used one, so that those that are not
// needed become stale.
func (b *broker) take(now time.Time) *conn {
	b.discard(func(c *conn) bool { return c.stale(now) })
	last := len(b.idle) - 1
	if last < 0 {
		return nil
	}
	c := b.idle[last]
	b.idle = slices.Delete(b.idle, last, last+1)
	return c
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
