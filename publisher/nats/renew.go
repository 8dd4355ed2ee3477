package nats

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
)

// A server ends the connection of a user whose JWT expires, or whose password was changed; what is on its way then has no
// answer. So when the credentials have changed, a new connection takes the place of the old one before that: calls begin on the
// new one, and those under way end on theirs.

const (
	// renewEvery is how often the credentials are looked at.
	renewEvery = 2 * time.Second
	// renewPause is how long it takes until new credentials that the server did not take are tried again.
	renewPause = 10 * time.Second
)

// renewed returns a link with the credentials of now, nil when the present one has them or no other one can be made.
func (p *Publisher) renewed(ctx context.Context, l *link) *link {
	auth, err := p.auth(l.server)
	if err != nil || auth.equal(l.auth) || time.Now().Before(p.renewAt) { // an error is told by whoever connects next
		return nil
	}
	next, err := p.dial(ctx, p.servers)
	if err == nil {
		p.renewAt, p.unrenewed = time.Time{}, ""
		return next
	}
	p.renewAt = time.Now().Add(renewPause)
	if why := errtext.Line(err); ctx.Err() == nil && why != p.unrenewed {
		p.unrenewed = why
		p.logger.Warn("NATS does not take the new credentials, so the connection from before stays", "error", err)
	}
	return nil
}

// borrow returns the connection that there is, for a call that releases it. Of two it is the newer one.
func (p *Publisher) borrow(ctx context.Context, of func(context.Context) (*link, error)) (*link, error) {
	for {
		link, err := of(ctx)
		if err != nil || link.use() {
			return link, err
		}
	}
}

// use counts a call that uses the link, unless another has taken its place.
func (l *link) use() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.users++
	}
	return !l.over
}

// release ends a call's use of the link.
func (l *link) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.over && l.users == 0 {
		close(l.unused)
	}
}

// end closes a link that was replaced when no call uses it any more.
func (l *link) end(ctx context.Context) {
	l.mu.Lock()
	if l.over = true; l.users == 0 {
		close(l.unused)
	}
	l.mu.Unlock()
	select {
	case <-l.unused:
	case <-l.closed:
	case <-ctx.Done():
	}
	l.close()
	<-l.closed
}
