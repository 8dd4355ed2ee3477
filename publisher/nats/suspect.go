package nats

import (
	"context"
	"errors"
	"time"
)

// A server that sends nothing may be slow, frozen or gone, or a firewall may have forgotten the connection. What tells
// them apart is another connection. If the same server answers on that one and not on the old one, the old one is dead:
// it is closed, and what was sent over it and not answered is sent again. If another server of the cluster answers, new
// calls go there, and calls under way go on waiting on the old connection. If none answers, all wait, and nothing is
// sent twice.

const (
	// quietBefore is how long nothing must have come from a server before it is doubted.
	quietBefore = 300 * time.Millisecond
	// quietAfter is how long a doubted server may take to send something before another connection is made, and again
	// after that.
	quietAfter = time.Second
)

var errSilent = errors.New("the server sends nothing over it, not even an answer to a ping, " +
	"although it answers on a new one")

// A silence says why a server is taken to be away although its connection is open.
type silence struct {
	since time.Time
	err   error
}

// away returns the answer for new messages while the server does not answer, on this connection or another. It returns
// nil once something has come from it.
func (l *link) away() error {
	s := l.silence.Load()
	if s == nil || !l.conn.quietSince(s.since) {
		return nil
	}
	return s.err
}

// doubt asks whether the server is there, after an answer failed to arrive, if nothing else has come from it either.
func (l *link) doubt() {
	if !l.conn.quietSince(time.Now().Add(-quietBefore)) {
		return
	}
	select {
	case l.doubted <- struct{}{}:
	default: // a check is already requested
	}
}

// speaks reports whether the server has sent something since the given time, after it is asked to.
func (l *link) speaks(ctx context.Context, since time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, quietAfter)
	defer cancel()
	return l.nc.FlushWithContext(ctx) == nil || !l.conn.quietSince(since)
}

// suspect finds out whether a doubted link is dead. It returns the link that takes its place, or nil.
func (p *Publisher) suspect(ctx context.Context, l *link) *link {
	asked := time.Now()
	if l.speaks(ctx, asked) {
		return nil
	}
	next, err := p.dial(ctx, l.cluster())
	switch {
	case ctx.Err() != nil && next == nil:
		return nil
	case err != nil:
		l.silence.Store(&silence{asked, err})
		return nil
	case l.speaks(ctx, asked), ctx.Err() != nil:
		next.drop()
		return nil
	case next.nc.ConnectedServerId() == l.nc.ConnectedServerId():
		l.conn.fails(errSilent)
		l.drop()
		p.logger.Warn("lost the connection to NATS", "error", l.lost())
	default:
		p.logger.Warn("a NATS server does not answer, so another is used", "server", l.server.address)
	}
	return next
}
