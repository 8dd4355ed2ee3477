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
// that is the password in the URL is renewed by a new URL. A connection is therefore replaced if the URL has changed,
// or if the connection is old and the broker refuses access, because what the broker knew at its login may be outdated.
// In addition, a node that confirms nothing for a long time is left for another one. It may have lost contact with the
// rest of the cluster, which goes on without it.

const (
	// patienceMin is the minimum age of a connection at which a refusal is a reason to log in again. It doubles with
	// each login that follows a refusal, because a missing right remains missing.
	patienceMin = time.Minute
	patienceMax = time.Hour
	// stayMin is the minimum time between leaving one node that confirms nothing and the next. It doubles with each
	// node that is left: if a queue has lost the majority of its nodes, no node is better than another.
	stayMin = 5 * time.Second
	stayMax = time.Minute
)

// renewed returns a new connection in place of live, if there is a reason for one and it can be made. Otherwise it
// returns live.
func (p *Publisher) renewed(ctx context.Context, live *connection) *connection {
	refused := live.refused.Swap(false)
	url, err := p.config.URL()
	changed := err == nil && url != live.url
	outdated := refused && time.Since(live.made) >= live.patience
	leaves := p.leaves(live)
	if !changed && !leaves && p.config.Tokens != nil {
		if outdated {
			live.made, live.patience = time.Now(), min(2*live.patience, patienceMax)
		}
		live.renew(outdated)
		return live
	}
	if !changed && !outdated && !leaves || !p.renewal.Due() {
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
	if !changed && outdated {
		conn.patience = min(2*live.patience, patienceMax)
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
	if now.Sub(p.leaveAt) > waryFor {
		p.stay = 0
	}
	p.stay = min(max(2*p.stay, stayMin), stayMax)
	p.leaveAt = now.Add(p.stay)
	p.log.Warn("rabbitmq confirms nothing, so another node is asked", "address", live.address)
	return true
}

// retire ends the connection once no call uses it any more and none of its confirms is kept.
func (c *connection) retire() {
	unused := c.users.Retire()
	c.p.running.Go(func() {
		select {
		case <-unused:
			c.close()
		case <-c.ended:
		}
	})
}
