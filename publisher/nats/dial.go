package nats

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

const (
	// lastResort is how long the publisher must have been without a connection before it also tries addresses of the
	// cluster that have never answered.
	lastResort = 10 * time.Second
	// rememberAddresses bounds the memory for addresses of the cluster.
	rememberAddresses = 1000
)

// worth returns the servers to try. It leaves out addresses of the cluster that were tried and have never answered,
// unless there has been no connection for a long time. A cluster behind a load balancer may report addresses of its own
// network.
func (p *Publisher) worth(known []server, down time.Time) []server {
	if time.Since(down) > lastResort {
		return known
	}
	var worth []server
	for i, s := range known {
		if answered, tried := p.answered[s.address]; i < len(p.servers) || answered || !tried {
			worth = append(worth, s)
		}
	}
	return worth
}

// dial tries the servers and returns a link to the first that accepts the connection, or else the answer of a
// configured server. The configured servers are tried first. They are tried again between any two servers that the
// cluster reported, and while any server keeps the dial waiting.
func (p *Publisher) dial(ctx context.Context, servers []server) (*link, error) {
	var failed error
	var group sync.WaitGroup
	defer group.Wait()
	race := connect.Race[*link]{
		Turns: p.turns(len(servers)), Again: len(p.servers), Go: group.Go,
		Open: func(ctx context.Context, i int) (*link, error) { return p.open(ctx, servers[i]) },
		Drop: (*link).drop,
		Ended: func(i int, err error) {
			if i < len(p.servers) {
				failed = err
			} else {
				p.note(servers[i].address, err)
			}
		},
	}
	link, _, won := race.Run(ctx)
	if !won {
		return nil, failed
	}
	// These addresses of the cluster had enough time to answer before another server accepted the connection.
	for i := len(p.servers); i < len(servers); i++ {
		if since, waiting := race.Waiting(i); waiting && time.Since(since) >= connect.Stagger {
			p.noteAddress(servers[i].address, false)
		}
	}
	return link, nil
}

// turns returns the order in which the given number of servers is tried.
func (p *Publisher) turns(servers int) []int {
	configured := len(p.servers)
	turns := rand.Perm(configured)
	for n, i := range rand.Perm(servers - configured) {
		turns = append(turns, configured+i, turns[n%configured])
	}
	return turns
}

// note records whether an address of the cluster has answered a try.
func (p *Publisher) note(address string, err error) {
	f, ok := errors.AsType[*connect.Failure](err)
	p.noteAddress(address, !ok || !f.Absent)
}

// noteAddress records that an address of the cluster was tried, and whether it has answered.
func (p *Publisher) noteAddress(address string, answered bool) {
	p.answered[address] = p.answered[address] || answered
}
