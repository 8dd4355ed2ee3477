package nats

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// stagger is how long a server has to take us before the next one is tried beside it.
	stagger = 250 * time.Millisecond
	// lastResort is how long nobody takes us until those addresses of the cluster are tried too that have never answered.
	lastResort = 10 * time.Second
	// rememberAddresses bounds the memory for addresses of the cluster.
	rememberAddresses = 1000
)

// worth returns the servers to try: not the addresses of the cluster that have never answered, unless we are without a connection for
// long. A cluster behind a load balancer may tell us addresses of a network of its own.
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

// dialling is one round of tries, of which each server takes part in one at a time.
type dialling struct {
	servers    []server
	configured int         // the first so many
	begun      []time.Time // of the try that is under way
	turns      []int       // the servers to try
	spare      int         // the configured one to try beside those that let us wait
	under      int         // tries under way
	others     int         // of those, of servers that are not configured
}

// dialled is how one try has ended.
type dialled struct {
	server int
	link   *link
	err    error
}

// dial tries the servers and returns a link to the first that takes us, or else the answer of a configured one. Those
// are tried first, and again between any two that the cluster told us of, and while one of those lets us wait.
func (p *Publisher) dial(ctx context.Context, servers []server) (*link, error) {
	d := newDialling(servers, len(p.servers))
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	ends := make(chan dialled, len(servers))
	defer func() {
		cancel()
		group.Wait()
		close(ends)
		for late := range ends {
			if late.link != nil {
				late.link.close()
				<-late.link.closed
			}
		}
	}()
	next := time.NewTimer(0)
	defer next.Stop()
	var failed error
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-next.C:
		case end := <-ends:
			d.count(end.server, -1)
			d.begun[end.server] = time.Time{}
			p.note(d, end)
			if end.link != nil {
				p.leftBehind(d)
				return end.link, nil
			}
			if end.server < d.configured {
				failed = end.err
			}
			if len(d.turns) == 0 {
				if d.under == 0 {
					return nil, failed
				}
				continue // the timer lets the configured ones take their turns
			}
		}
		if i, ok := d.turn(); ok {
			d.begun[i] = time.Now()
			d.count(i, 1)
			group.Go(func() {
				link, err := p.open(ctx, servers[i])
				ends <- dialled{i, link, err}
			})
		}
		next.Reset(stagger)
	}
}

func newDialling(servers []server, configured int) *dialling {
	d := &dialling{servers: servers, configured: configured, begun: make([]time.Time, len(servers)), turns: rand.Perm(configured)}
	for n, i := range rand.Perm(len(servers) - configured) {
		d.turns = append(d.turns, configured+i, d.turns[n%configured])
	}
	return d
}

// turn returns the server to try now, unless that is being tried.
func (d *dialling) turn() (server int, ok bool) {
	if len(d.turns) > 0 {
		server, d.turns = d.turns[0], d.turns[1:]
	} else if d.others > 0 {
		server = d.spare % d.configured
		d.spare++
	} else {
		return 0, false
	}
	return server, d.begun[server].IsZero()
}

// count notes that a try of the server begins, or has ended.
func (d *dialling) count(server, n int) {
	d.under += n
	if server >= d.configured {
		d.others += n
	}
}

// note takes down whether an address of the cluster has answered.
func (p *Publisher) note(d *dialling, end dialled) {
	if end.server < d.configured {
		return
	}
	trouble, ok := errors.AsType[*trouble](end.err)
	address := d.servers[end.server].address
	p.noteAddress(address, !ok || !trouble.absent)
}

// leftBehind takes down the addresses of the cluster that had their chance when another server took us.
func (p *Publisher) leftBehind(d *dialling) {
	for i := d.configured; i < len(d.servers); i++ {
		if address := d.servers[i].address; !d.begun[i].IsZero() && time.Since(d.begun[i]) >= stagger {
			p.noteAddress(address, false)
		}
	}
}

// noteAddress takes down that an address of the cluster was tried, and whether it has answered.
func (p *Publisher) noteAddress(address string, answered bool) {
	p.answered[address] = p.answered[address] || answered
}
