package nats

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
)

// A server ends the connection of a user whose JWT expires or whose password was changed. Messages on the wire then
// have no answer. If the credentials have changed, a new connection therefore replaces the old one before that: new
// calls use the new connection, and calls under way end on theirs.

const (
	// renewEvery is how often the credentials are checked.
	renewEvery = 2 * time.Second
	// renewPause is the pause before new credentials that the server did not accept are tried again.
	renewPause = 10 * time.Second
)

// renewed returns a link with the current credentials. It returns nil if the present link has them, or if no other link
// can be made.
func (p *Publisher) renewed(ctx context.Context, l *link) *link {
	auth, err := p.auth(l.server)
	// The next attempt to connect reports an error of auth.
	if err != nil || auth.equal(l.auth) || time.Now().Before(p.renewAt) {
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

// borrow returns the current connection, for a call that must release it. If there are two, it returns the newer one.
func (p *Publisher) borrow(ctx context.Context, of func(context.Context) (*link, error)) (*link, error) {
	for {
		link, err := of(ctx)
		if err != nil || link.use() {
			return link, err
		}
	}
}

// use counts a call that uses the link, unless another link has taken its place.
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

// end closes a replaced link once no call uses it any more.
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
