package nats

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

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
			}
		},
	}
	link, _, won := race.Run(ctx)
	if !won {
		return nil, failed
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
