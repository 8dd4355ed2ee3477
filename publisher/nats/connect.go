package nats

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// newKeeper returns the keeper of the publisher's link. Its functions run in the keeper's goroutine, which is the only
// one that uses p.last. The servers of the cluster are those that the last link has learned.
func (p *Publisher) newKeeper() *connect.Keeper[*link] {
	return &connect.Keeper[*link]{
		Life: p.life, Broker: "NATS server " + p.servers[0].address,
		Dial: func(ctx context.Context) (*link, error) {
			servers := p.servers
			if p.last != nil {
				servers = p.last.server.with(servers, p.last.nc.DiscoveredServers())
			}
			link, err := p.dial(ctx, servers)
			if err == nil {
				p.config.Logger.Info("connected to NATS", "server", link.server.address, "version",
					link.nc.ConnectedServerVersion())
				p.last = link
			}
			return link, err
		},
		Outdated: p.outdated,
		Stays: func(_ *link, err error) {
			p.config.Logger.Warn("NATS takes no new connection, so the one from before stays", "error", err)
		},
		Replaced: p.replaced,
	}
}

// outdated reports whether the link has other credentials than the current ones, or an outdated limit. A server ends
// the connection of a user whose JWT expires or whose password was changed, and messages on the wire then have no
// answer. A new connection therefore replaces the old one before that. An error of auth is reported by the next attempt
// to connect. The keeper asks every other second.
func (p *Publisher) outdated(l *link) bool {
	auth, err := p.auth()
	return l.outgrown.Load() || err == nil && !auth.equal(l.auth)
}

var errSilent = errors.New("the server sends nothing over it, not even an answer to a ping, " +
	"although it answers on a new one")

// replaced ends a silent link at once if the same server answers on the new one: the old connection is dead, and what
// was sent over it and not answered is sent again. If another server of the cluster answers, calls under way go on
// waiting on the old connection. Its server may only be frozen, and answers when it goes on.
func (p *Publisher) replaced(silent, next *link) {
	if next.nc.ConnectedServerId() == silent.nc.ConnectedServerId() {
		silent.conn.Fail(errSilent)
		silent.Close()
		p.config.Logger.Warn("lost the connection to NATS", "error", silent.Lost())
		return
	}
	p.config.Logger.Warn("a NATS server does not answer, so another is used", "server", silent.server.address)
}

// quietBefore is how long nothing must have come from a server before a call asks for a check of its link. While
// answers come, nothing is asked; a healthy server answers within milliseconds.
const quietBefore = 300 * time.Millisecond

// doubt asks whether the server is there, after an answer failed to arrive, if nothing else has come from it either.
// The check itself, in the keeper's goroutine, gives the server a second for any sign of life.
func (l *link) doubt() {
	if l.QuietSince(time.Now().Add(-quietBefore)) {
		l.p.keeper.Look()
	}
}

// dial tries the servers and returns a link to the first that accepts the connection, or else the answer of a
// configured server. The configured servers are tried first, and again between any two servers that the cluster
// reported: a cluster behind a load balancer reports addresses of a network of its own. Both orders are random, so that
// many relays spread over the servers.
func (p *Publisher) dial(ctx context.Context, servers []server) (*link, error) {
	configured := len(p.servers)
	turns := rand.Perm(configured)
	for n, i := range rand.Perm(len(servers) - configured) {
		turns = append(turns, configured+i, turns[n%configured])
	}
	var failed error
	link, err := connect.InTurn(ctx, connect.LoginTurn, turns, func(ctx context.Context, i int) (*link, error) {
		link, err := p.open(ctx, servers[i])
		// The user knows the configured addresses, and the failure is about a setting.
		if i < configured {
			failed = err
		}
		return link, err
	})
	if err != nil {
		return nil, failed
	}
	return link, nil
}
