package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/outbox-relay/outbox-relay/publisher/internal/network"
)

const (
	// askTimeout bounds small requests: metadata, a producer id.
	askTimeout = 3 * time.Second
	// maxThrottle is how long a request waits for the end of a quota's pause; longer pauses are
	// answered as unavailable.
	maxThrottle = 500 * time.Millisecond
	// quotaQuiet is how long no such pause is asked for until the quota counts as kept again.
	quotaQuiet = time.Minute
)

// A broker is one address of the cluster: its connections, and how it fares.
type broker struct {
	publisher *Publisher
	address   string

	mu        sync.Mutex
	idle      []*conn
	failures  int       // dials failed in a row
	failed    error     // of the last dial; nil while a caller may wait for the next one
	logged    bool      // that it is away
	retry     time.Time // no dial before it
	dialling  bool      // in the background
	throttled time.Time // the broker reads no produce request before it
	overQuota time.Time // last asked for a long pause; zero when that is over
	heard     time.Time // last answer to a produce request
	silence   silence
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

// reset drops the idle connections that nothing has come from since: one has just died, and the broker with it perhaps.
func (b *broker) reset(since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = slices.DeleteFunc(b.idle, func(c *conn) bool {
		if c.used.After(since) {
			return false
		}
		b.discard(c)
		return true
	})
}

// away reports whether the last dial failed, or the last request was not answered.
func (b *broker) away() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures > 0 || b.silence.requests > 0
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
		asked := time.Now()
		response, err := c.roundTrip(ctx, request, within(ctx, askTimeout))
		b.give(c, err == nil)
		if err == nil {
			return response, nil
		}
		if over(ctx) {
			return nil, err
		}
		b.reset(asked)
		if !reused {
			if b.publisher.config.SASL == nil && network.Ended(err) {
				err = b.publisher.explain(b.address, stepRequest, err)
			}
			return nil, err
		}
	}
}

// throttle notes how long the broker wants to be left alone (KIP-219: it has answered and reads nothing
// more from the connection until then; what has to be asked meanwhile takes another one). A quota is kept
// for each broker. While it is used up, pauses come and go; that is told as one state.
func (b *broker) throttle(c *conn, pause time.Duration) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if pause > 0 {
		b.throttled = now.Add(pause)
		c.muted = b.throttled
	}
	switch told := !b.overQuota.IsZero(); {
	case pause > maxThrottle:
		b.overQuota = now
		if !told {
			b.publisher.log.Warn("kafka broker throttles this client: its quota is used up", "broker", b.address, "pause",
				pause.Round(time.Millisecond))
		}
	case told && now.Sub(b.overQuota) > quotaQuiet:
		b.overQuota = time.Time{}
		b.publisher.log.Info("kafka broker does not throttle this client any more", "broker", b.address)
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
