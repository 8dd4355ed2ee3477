package kafka

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/internal/network"
)

const (
	minBackoff = 50 * time.Millisecond
	// maxBackoff is short, as whoever calls has a backoff of its own: rows are to flow within a second
	// of the broker being back.
	maxBackoff = 250 * time.Millisecond
	// fairDial is the least time of a dial that says something of a broker that did not answer in it.
	fairDial = time.Second
)

// take returns a connection, a new one if none is idle. Nobody waits for a broker whose last dial failed: its
// error is returned at once, and when the backoff has passed the next dial goes on in the background. With
// force the caller dials and waits all the same.
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
	if err := b.failed; err != nil && !force {
		if !now.Before(b.retry) {
			b.redial()
		}
		b.mu.Unlock()
		return nil, false, err
	}
	b.mu.Unlock()

	fair := within(ctx, dialTimeout) >= fairDial
	c, err = b.publisher.connect(ctx, b.address)
	switch {
	case err != nil && (errors.Is(ctx.Err(), context.Canceled) || b.publisher.open.closed()): // says nothing about the broker
	case err != nil && !fair && network.TimedOut(err):
		b.hurried(err)
	default:
		b.dialled(err)
	}
	return c, false, err
}

// hurried notes a dial that had too little time: the next one takes as long as it needs, and nobody waits for it.
func (b *broker) hurried(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		b.failed = err
		b.redial()
	}
}

// redial dials in the background, unless that is under way; b.mu is held.
func (b *broker) redial() {
	if b.dialling {
		return
	}
	b.dialling = b.publisher.open.start(func() {
		c, err := b.publisher.connect(context.Background(), b.address)
		b.mu.Lock()
		b.dialling = false
		b.mu.Unlock()
		if b.dialled(err); err == nil {
			b.give(c, true)
		}
	})
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
