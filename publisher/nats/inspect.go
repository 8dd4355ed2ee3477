package nats

import (
	"context"

	inspect "github.com/outbox-relay/outbox-relay/internal/inspect/nats"
)

// Inspect lends the publisher's connection for an inspection of the server, and connects first if needed.
func (p *Publisher) Inspect(ctx context.Context) (*inspect.Connection, error) {
	link, err := p.borrow(ctx, true)
	if err != nil {
		return nil, err
	}
	return &inspect.Connection{
		Conn: link.nc, Address: link.server.address, API: p.api(), Stream: p.config.Stream, Core: p.config.Core,
		CheckSubject: func(subject string) error { return checkSubject(subject, link.inboxes) },
		Request:      link.request,
		CheckAccount: link.checkAccount,
		Release:      func() { link.users.Add(-1) },
	}, nil
}
