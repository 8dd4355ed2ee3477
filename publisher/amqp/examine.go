package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	doctor "github.com/outbox-relay/outbox-relay/internal/doctor/amqp"
	"github.com/outbox-relay/outbox-relay/internal/rabbitmq"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

var _ publisher.Examiner = (*Publisher)(nil)

// Examine implements [publisher.Examiner]: it examines the connection, the exchanges and the queues of the default
// exchange, and asks the management interface for more, if there is one.
func (p *Publisher) Examine(ctx context.Context, addresses []publisher.Address) []finding.Finding {
	return doctor.Examine(ctx, p.inspect, p.names, addresses)
}

// inspect lends the publisher's connection for an inspection of the broker, and connects first if needed. Release must
// be called when the inspection is over: Close of the publisher waits for it.
func (p *Publisher) inspect(ctx context.Context) (*doctor.Connection, error) {
	if !p.life.Enter() {
		return nil, publisher.ErrClosed
	}
	conn, err := p.keeper.Borrow(ctx, true)
	if err != nil {
		p.life.Leave()
		return nil, err
	}
	c := &doctor.Connection{
		Connection: conn.amqp, Address: conn.address, Exchange: p.config.Exchange, Unrouted: p.config.Unrouted,
		Ask: conn.onPlainChannel, Blocked: conn.blocked.Load, Channels: cap(conn.pool), Limit: conn.limit,
		CheckAddress: func(to publisher.Address) error {
			m := &publisher.Message{Topic: to.Topic, Exchange: to.Exchange}
			_, err := (&writer{table: amqp091.Table{}}).publishing(m)
			return err
		},
		Release: func() {
			conn.Users.Add(-1)
			p.life.Leave()
		},
	}
	if p.config.Management != nil {
		c.Management = p.management
	}
	return c, nil
}

// management returns a client of the configured management interface. It reads the current settings. The interface is
// only asked for reports, never for publishing.
func (p *Publisher) management(ctx context.Context) (*rabbitmq.Management, error) {
	text, err := p.config.Management()
	if err != nil {
		return nil, fmt.Errorf("%s %w", p.names.Of("Management"), err)
	}
	broker, err := p.config.URL()
	if err != nil {
		return nil, err
	}
	hosts, err := addresses(broker, p.names)
	if err != nil {
		return nil, err
	}
	login, _ := amqp091.ParseURI(hosts[0])       // addresses has parsed it
	if p.config.Mechanism == mechanismExternal { // user and password are only the library's defaults
		login.Username, login.Password = "", ""
	}
	// The management interface takes the token as a password, with any user name.
	if p.config.Tokens != nil && !strings.Contains(text, "@") {
		login.Username = cmp.Or(userIn(hosts[0]), nameless)
		if login.Password, err = p.config.Tokens.Token(ctx); err != nil {
			return nil, err
		}
	}
	var settings *tls.Config
	if p.config.TLS != nil && strings.HasPrefix(text, "https:") {
		if settings, err = p.config.TLS(); err != nil {
			return nil, err
		}
	}
	m, err := rabbitmq.NewManagement(text, login, settings)
	if err != nil {
		return nil, fmt.Errorf("%s %w", p.names.Of("Management"), err)
	}
	return m, nil
}
