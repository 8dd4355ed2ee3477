package amqp

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A connection keeps the login that it was made with. RabbitMQ refuses each operation of one whose OAuth token has expired, and
// leaves the connection open. Tokens that have settings of their own are renewed on the connection (see renew); one that is the
// password in the URL is in a new URL by then. So a connection is replaced when the URL has changed, and when it is old and
// the broker refuses access: what the broker knew at its login may be outdated.

const (
	// patienceMin is how old a connection must be at least for a refusal to be a reason to log in again. It doubles with
	// each login that follows a refusal, as a right that is missing stays so.
	patienceMin = time.Minute
	patienceMax = time.Hour
	// renewPause is how long a connection is left alone after it could not be replaced: calls wait while that is tried.
	renewPause = 10 * time.Second
)

// renewed returns a new connection in the place of live if there is a reason for one and it can be made, else live.
func (p *Publisher) renewed(ctx context.Context, live *connection) *connection {
	refused := live.refused.Swap(false)
	url, err := p.config.URL()
	changed := err == nil && url != live.url
	outdated := refused && time.Since(live.made) >= live.patience
	if !changed && p.config.Tokens != nil {
		if outdated {
			live.made, live.patience = time.Now(), min(2*live.patience, patienceMax)
		}
		live.renew(p.config.Tokens, outdated)
		return live
	}
	if !changed && !outdated || time.Now().Before(p.renewAt) {
		return live
	}
	p.blocked = live.blocked.Load()
	conn, err := p.open(ctx)
	if err != nil {
		p.renewAt = time.Now().Add(renewPause)
		quiet := errors.Is(err, publisher.ErrNotAttempted) || errors.Is(err, publisher.ErrClosed)
		if why := errtext.Line(err); !quiet && why != p.unrenewed {
			p.unrenewed = why
			p.log.Warn("rabbitmq cannot be logged in to again, so the connection from before stays", "address", live.address, "error", err)
		}
		return live
	}
	p.renewAt, p.unrenewed = time.Time{}, ""
	if !changed {
		conn.patience = min(2*live.patience, patienceMax)
	}
	p.retired = slices.DeleteFunc(p.retired, func(c *connection) bool { return c.amqp.IsClosed() })
	p.retired = append(p.retired, live)
	live.retire()
	return conn
}

// use counts a call that uses the connection, unless another has taken its place.
func (c *connection) use() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		return false
	}
	c.users++
	return true
}

// release ends a call's use of the connection. The last one to leave a retired connection closes it, in the background.
func (c *connection) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users == 0 && c.retired {
		c.running.Go(c.close)
	}
}

// retire lets the connection end when no call uses it any more.
func (c *connection) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	if c.users == 0 {
		c.running.Go(c.close)
	}
}
