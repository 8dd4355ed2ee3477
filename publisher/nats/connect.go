package nats

import (
	"context"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// connected returns the link to the server, or the answer for messages that cannot be sent now. It waits only for the
// very first attempt to connect, which it starts.
func (p *Publisher) connected(ctx context.Context) (*link, error) {
	for {
		p.mu.Lock()
		p.start()
		link, down, closed, tried := p.link, p.down, p.closed, p.tried
		p.mu.Unlock()
		switch {
		case closed:
			return nil, publisher.ErrClosed
		case ctx.Err() != nil:
			return nil, callEnded(ctx)
		case link != nil:
			return link, link.away()
		case down != nil:
			return nil, down
		}
		select {
		case <-tried:
		case <-ctx.Done():
		}
	}
}

// reconnected returns the link to the server. If there is none, it requests an immediate attempt to connect and waits
// until an attempt has ended.
func (p *Publisher) reconnected(ctx context.Context) (*link, error) {
	p.mu.Lock()
	p.start()
	link, closed, tried := p.link, p.closed, p.tried
	p.mu.Unlock()
	if link != nil || closed {
		return p.connected(ctx)
	}
	select {
	case p.hurry <- struct{}{}:
	default:
	}
	select {
	case <-tried:
		return p.connected(ctx)
	case <-ctx.Done():
		return nil, p.unreachable(ctx)
	}
}

// unreachable is the answer if ctx ended before an attempt to connect did.
func (p *Publisher) unreachable(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return p.down
	}
	return publisher.UnavailableError(publisher.ScopeDestination, "connecting",
		"NATS server %s has not answered yet: %w", p.servers[0].address, context.Cause(ctx))
}

// start runs the goroutine that connects, once. p.mu is held.
func (p *Publisher) start() {
	if p.cancel != nil || p.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go p.run(ctx)
}

// run keeps one link up until ctx ends.
func (p *Publisher) run(ctx context.Context) {
	defer close(p.stopped)
	var replaced sync.WaitGroup
	defer replaced.Wait()
	known := p.servers
	var backoff connect.Backoff
	for ctx.Err() == nil {
		link, err := p.dial(ctx, known)
		if err != nil {
			p.logger.Debug("cannot connect to NATS", "error", err) // the caller reports it
			p.report(nil, err)
		} else {
			since := time.Now()
			for next := link; next != nil; {
				link = next
				if known, next = p.hold(ctx, link); next != nil {
					old := link
					replaced.Go(func() { old.end(ctx) })
				}
			}
			if time.Since(since) > connect.LongestPause { // otherwise the server accepts connections and ends them at once
				backoff.Reset()
			}
		}
		p.rest(ctx, backoff.After(err))
	}
}

// hold lends out the link until the link or ctx has ended, or another link takes its place. It returns the new link, if
// any, and the servers to try next.
func (p *Publisher) hold(ctx context.Context, l *link) (known []server, next *link) {
	p.logger.Info("connected to NATS", "server", l.server.address, "version", l.nc.ConnectedServerVersion())
	p.report(l, nil)
	look := time.NewTicker(renewEvery)
	defer look.Stop()
	for open := true; open && next == nil; {
		select {
		case <-look.C:
			next = p.renewed(ctx, l)
			if next == nil && (l.away() != nil || l.conn.quietSince(time.Now().Add(-2*pingInterval))) {
				next = p.suspect(ctx, l)
			}
		case <-l.doubted:
			next = p.suspect(ctx, l)
		case question := <-p.limits:
			if p.limited = append(p.limited, question); len(p.limited) == 1 {
				p.limitDue.Reset(time.Until(p.limitAt.Add(limitPause)))
			}
		case <-p.limitDue.C:
			next = p.answerLimits(ctx, l)
		case <-l.closed:
			open = false
		case <-ctx.Done():
			l.drop()
			open = false
		}
	}
	if next != nil {
		return nil, next
	}
	err := l.lost()
	if ctx.Err() == nil {
		p.logger.Warn("lost the connection to NATS", "error", err)
	}
	p.report(nil, err)
	return l.server.with(p.servers, l.nc.DiscoveredServers()), nil
}

// report publishes the outcome of an attempt, or the loss of a link, to all waiting calls.
func (p *Publisher) report(link *link, down error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link, p.down = link, down
	close(p.tried)
	p.tried = make(chan struct{})
}

// rest waits for the pause, unless a call requests an attempt at once.
func (p *Publisher) rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.hurry:
	case <-ctx.Done():
	}
}
