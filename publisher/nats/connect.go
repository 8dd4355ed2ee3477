package nats

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// renewEvery is how often the credentials are checked.
const renewEvery = 2 * time.Second

// borrow returns the present link, which the caller must release, or the answer for messages that cannot be sent now.
// It waits for the very first attempt to connect, which it starts. If again is true and there is no link, it waits
// until another attempt has ended, for which the pause between two attempts is a second at most.
func (p *Publisher) borrow(ctx context.Context, again bool) (*link, error) {
	p.begun.Do(func() { p.life.Start(p.run) })
	for asked := !again; ; asked = true {
		p.mu.Lock()
		link, down, tried := p.link, p.down, p.tried
		p.mu.Unlock()
		switch {
		case p.life.Over():
			return nil, publisher.ErrClosed
		case link != nil:
			if err := link.away(); err != nil || link.users.Use() {
				return link, err
			}
			continue // another one takes its place in a moment
		case down != nil && (asked || ctx.Err() != nil):
			return nil, down
		case ctx.Err() != nil && again:
			return nil, publisher.UnavailableError(publisher.ScopeDestination, "connecting",
				"NATS server %s has not answered yet: %w", p.servers[0].address, context.Cause(ctx))
		case ctx.Err() != nil:
			return nil, publisher.ErrNotAttempted
		}
		select {
		case <-tried:
		case <-ctx.Done():
		}
	}
}

// run keeps one link up until the publisher is closed.
func (p *Publisher) run() {
	ctx := p.life.Ctx
	var replaced sync.WaitGroup
	defer replaced.Wait()
	known := p.servers
	var backoff connect.Backoff
	for ctx.Err() == nil {
		link, err := p.dial(ctx, known)
		if err != nil {
			p.logger.Debug("cannot connect to NATS", "error", err) // the caller reports it
			p.report(nil, err)
		}
		for since := time.Now(); link != nil; {
			next := p.hold(ctx, link)
			if next != nil {
				old := link
				replaced.Go(func() { old.retire(ctx.Done()) })
			} else {
				known = link.cluster()
				if time.Since(since) > connect.LongestPause { // otherwise the server ends connections at once
					backoff.Reset()
				}
			}
			link = next
		}
		select {
		case <-time.After(backoff.After(err)):
		case <-ctx.Done():
		}
	}
}

// hold lends out the link until the link or ctx has ended, or another link, which it returns, takes its place.
func (p *Publisher) hold(ctx context.Context, l *link) (next *link) {
	p.logger.Info("connected to NATS", "server", l.server.address, "version", l.nc.ConnectedServerVersion())
	p.report(l, nil)
	look := time.NewTicker(renewEvery)
	defer look.Stop()
	for open := true; open && next == nil; {
		select {
		case <-look.C:
			if auth, err := p.auth(l.server); err == nil && !auth.equal(l.auth) {
				next = p.renewed(ctx)
			} // the next attempt to connect reports an error of auth
			if next == nil && (l.away() != nil || l.conn.quietSince(time.Now().Add(-2*pingInterval))) {
				next = p.suspect(ctx, l)
			}
		case <-l.doubted:
			next = p.suspect(ctx, l)
		case <-p.outgrown:
			select {
			case <-time.After(time.Until(l.begun.Add(limitPause))):
			case <-ctx.Done():
			}
			next = p.renewed(ctx)
		case <-l.closed:
			open = false
		case <-ctx.Done():
			l.drop()
			open = false
		}
	}
	if next == nil {
		err := l.lost()
		if ctx.Err() == nil {
			p.logger.Warn("lost the connection to NATS", "error", err)
		}
		p.report(nil, err)
	}
	return next
}

// report publishes the outcome of an attempt, or the loss of a link, to all waiting calls.
func (p *Publisher) report(link *link, down error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link, p.down = link, down
	close(p.tried)
	p.tried = make(chan struct{})
}

// renewed returns a link with the current credentials and limits, or nil if none can be made. A server ends the
// connection of a user whose JWT expires or whose password was changed, and messages on the wire then have no answer. A
// new connection therefore replaces the old one before that: new calls use the new connection, and calls under way end
// on theirs.
func (p *Publisher) renewed(ctx context.Context) *link {
	if !p.renewal.Due() {
		return nil
	}
	next, err := p.dial(ctx, p.servers)
	if p.renewal.Ended(err) && ctx.Err() == nil {
		p.logger.Warn("NATS takes no new connection, so the one from before stays", "error", err)
	}
	return next
}

// dial tries the servers and returns a link to the first that accepts the connection, or else the answer of a
// configured server. The configured servers are tried first. They are tried again between any two servers that the
// cluster reported, and while any server keeps the dial waiting.
func (p *Publisher) dial(ctx context.Context, servers []server) (*link, error) {
	configured := len(p.servers)
	turns := rand.Perm(configured)
	for n, i := range rand.Perm(len(servers) - configured) {
		turns = append(turns, configured+i, turns[n%configured])
	}
	var failed error
	var group sync.WaitGroup
	defer group.Wait()
	race := connect.Race[*link]{
		Turns: turns, Again: configured, Go: group.Go,
		Open: func(ctx context.Context, i int) (*link, error) { return p.open(ctx, servers[i]) },
		Drop: (*link).drop,
		Ended: func(i int, err error) {
			if i < configured {
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

// cluster returns the configured servers and those that the link's server has reported.
func (l *link) cluster() []server { return l.server.with(l.p.servers, l.nc.DiscoveredServers()) }
