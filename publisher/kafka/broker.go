package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/outbox-relay/outbox-relay/publisher/internal/network"
)

const (
	minBackoff = 50 * time.Millisecond
	// maxBackoff is short, as whoever calls has a backoff of its own: rows are to flow within a second
	// of the broker being back.
	maxBackoff = 250 * time.Millisecond
	// askTimeout bounds small requests: metadata, a producer id.
	askTimeout = 3 * time.Second
	// maxThrottle is how long a request waits for the end of a quota's pause; longer pauses are
	// answered as unavailable.
	maxThrottle = 500 * time.Millisecond
)

// A broker is one address of the cluster: its connections, and how it fares.
type broker struct {
	publisher *Publisher
	address   string

	mu        sync.Mutex
	idle      []*conn
	failures  int       // dials failed in a row
	failed    error     // of the last dial
	logged    bool      // that it is away
	retry     time.Time // no dial before it
	throttled time.Time // the broker reads no produce request before it
}

// take returns a connection, a new one if none is idle. While the last dial failed less than the
// backoff ago it returns that dial's error at once, unless forced.
func (b *broker) take(ctx context.Context, force bool) (c *conn, reused bool, err error) {
	now := time.Now()
	b.mu.Lock()
	for i := len(b.idle) - 1; i >= 0; i-- {
		c = b.idle[i]
		if now.Before(c.muted) {
			continue
		}
		b.idle = slices.Delete(b.idle, i, i+1)
		if !c.stale(now) {
			b.mu.Unlock()
			return c, true, nil
		}
		b.discard(c)
	}
	if b.failures > 0 && now.Before(b.retry) && !force {
		err := b.failed
		b.mu.Unlock()
		return nil, false, err
	}
	b.mu.Unlock()

	c, err = b.publisher.connect(ctx, b.address)
	if err != nil && (ctx.Err() != nil || b.publisher.open.closed()) {
		return nil, false, err // says nothing about the broker
	}
	b.dialled(err)
	return c, false, err
}

// dialled notes the outcome of a dial. A broker that is away is logged once, and only while others are
// there: that the whole cluster is away is the caller's to say.
func (b *broker) dialled(err error) {
	alone := b.publisher.cluster.unreachable()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		if b.logged {
			b.publisher.log.Info("kafka broker reachable again", "broker", b.address)
		}
		b.failures, b.failed, b.logged = 0, nil, false
		return
	}
	if !b.logged && !alone {
		b.publisher.log.Warn("kafka broker unreachable", "broker", b.address, "error", err)
		b.logged = true
	}
	backoff := maxBackoff
	if b.failures < 5 {
		backoff = min(minBackoff<<b.failures, maxBackoff)
	}
	b.failures++
	b.failed = err
	b.retry = time.Now().Add(backoff/2 + rand.N(backoff/2))
}

// give takes back a connection that answered, or ends it.
func (b *broker) give(c *conn, healthy bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.used = time.Now()
	for len(b.idle) > 0 && b.idle[0].stale(c.used) { // the oldest, which take may never reach
		b.discard(b.idle[0])
		b.idle = slices.Delete(b.idle, 0, 1)
	}
	if healthy && !c.stale(c.used) && !b.publisher.open.closed() {
		b.idle = append(b.idle, c)
		return
	}
	b.discard(c)
}

func (b *broker) discard(c *conn) {
	b.publisher.open.remove(c.number)
	_ = c.net.Close()
}

// reset drops the idle connections: one has just died, and the broker with it perhaps.
func (b *broker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.idle {
		b.discard(c)
	}
	b.idle = b.idle[:0]
}

// down reports whether the last dial failed.
func (b *broker) down() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures > 0
}

// connected reports whether a connection is idle.
func (b *broker) connected() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.idle) > 0
}

// ask sends a request that may be sent twice, so that a connection which died while it was idle does
// not show.
func (b *broker) ask(ctx context.Context, request protocol.Message, force bool) (protocol.Message, error) {
	for {
		c, reused, err := b.take(ctx, force)
		if err != nil {
			return nil, err
		}
		if _, understood := c.versions[request.ApiKey()]; !understood {
			b.give(c, true)
			return nil, fmt.Errorf("%s: %w", request.ApiKey(), kafkago.UnsupportedVersion)
		}
		response, err := c.roundTrip(ctx, request, within(ctx, askTimeout))
		b.give(c, err == nil)
		if err == nil {
			return response, nil
		}
		b.reset()
		if ctx.Err() != nil {
			return nil, err
		}
		if !reused {
			if b.publisher.config.SASL == nil && network.Ended(err) {
				err = b.publisher.explain(b.address, stepRequest, err)
			}
			return nil, err
		}
	}
}

// throttle notes how long the broker wants to be left alone (KIP-219: it has answered and reads nothing
// more from the connection until then; what has to be asked meanwhile takes another one).
func (b *broker) throttle(c *conn, pause time.Duration) {
	if pause > 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.throttled = time.Now().Add(pause)
		c.muted = b.throttled
	}
}

// pause is how long the broker still wants to be left alone.
func (b *broker) pause() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.throttled.IsZero() {
		return 0
	}
	return max(time.Until(b.throttled), 0)
}
