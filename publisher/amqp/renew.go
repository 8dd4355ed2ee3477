package amqp

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A connection keeps the login with which it was made. If its OAuth token has expired, RabbitMQ refuses each operation
// and leaves the connection open. Tokens with settings of their own are renewed on the connection (see renew). A token
// that is the password in the URL is renewed by a new URL, so a connection is replaced if the URL has changed. RabbitMQ
// looks up the rights of any other login at each refusal, and logging in again would change nothing. In addition, a
// node that confirms nothing for a long time is left for another one. It may have lost contact with the rest of the
// cluster, which goes on without it.

const (
	// tokenRest is how long a token is used before a refusal is a reason to ask for another one. A missing right
	// remains missing with each token.
	tokenRest = time.Minute
	// stay is the minimum time between leaving one node that confirms nothing and the next. If a queue has lost the
	// majority of its nodes, no node is better than another.
	stay = time.Minute
)

// renewed returns a new connection in place of live, if there is a reason for one and it can be made. Otherwise it
// returns live.
func (p *Publisher) renewed(ctx context.Context, live *connection) *connection {
	refused := live.refused.Swap(false)
	url, err := p.config.URL()
	changed := err == nil && url != live.url
	leaves := p.leaves(live)
	if !changed && !leaves && p.config.Tokens != nil {
		outdated := refused && time.Since(live.made) >= tokenRest
		if outdated {
			live.made = time.Now()
		}
		live.renew(outdated)
	}
	if !changed && !leaves || !p.renewal.Due() {
		return live
	}
	if leaves {
		p.host++
	}
	conn, err := p.open(ctx)
	news := p.renewal.Ended(err)
	if err != nil {
		if news && !errors.Is(err, publisher.ErrNotAttempted) && !errors.Is(err, publisher.ErrClosed) {
			p.log.Warn("rabbitmq cannot be logged in to again, so the connection from before stays", "address",
				live.address, "error", err)
		}
		return live
	}
	p.replace(live)
	return conn
}

// replace retires a connection.
func (p *Publisher) replace(c *connection) {
	p.retired = slices.DeleteFunc(p.retired, func(c *connection) bool { return c.amqp.IsClosed() })
	p.retired = append(p.retired, c)
	c.retire()
}

// leaves reports whether to leave the connection's node because the node confirms nothing.
func (p *Publisher) leaves(live *connection) bool {
	now, futile := time.Now(), live.futile.Swap(0)
	if futile != live.accepts.Load()+1 || live.blocked.Load() != nil || now.Before(p.leaveAt) {
		return false
	}
	p.leaveAt = now.Add(stay)
	p.log.Warn("rabbitmq confirms nothing, so another node is asked", "address", live.address)
	return true
}

// retire ends the connection once no call uses it any more and none of its confirms is kept.
func (c *connection) retire() {
	unused := c.users.Retire()
	c.p.life.Go(func() {
		select {
		case <-unused:
			c.close()
		case <-c.ended:
		}
	})
}
