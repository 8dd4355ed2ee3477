package nats

import (
	"context"

	doctor "github.com/outbox-relay/outbox-relay/internal/doctor/nats"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

var _ publisher.Examiner = (*Publisher)(nil)

// Examine implements [publisher.Examiner]: it examines the server, the login, JetStream, and the streams of the
// subjects.
func (p *Publisher) Examine(ctx context.Context, addresses []publisher.Address) []finding.Finding {
	return doctor.Examine(ctx, p.inspect, p.names, addresses)
}

// inspect lends the publisher's connection for an inspection of the server, and connects first if needed. What doctor
// finds is so found over the very connection that rows use. Release must be called when the inspection is over: until
// then the link stays open.
func (p *Publisher) inspect(ctx context.Context) (*doctor.Connection, error) {
	link, err := p.keeper.Borrow(ctx, true)
	if err != nil {
		return nil, err
	}
	return &doctor.Connection{
		Conn: link.nc, Address: link.server.address, API: p.api(), Stream: p.config.Stream,
		CheckAddress: func(to publisher.Address) error { return checkSubject(to.Topic, link.inboxes) },
		Request:      link.request,
		CheckAccount: link.checkAccount,
		Release:      func() { link.Users.Add(-1) },
	}, nil
}
