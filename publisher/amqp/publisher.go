package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
	"github.com/outbox-relay/outbox-relay/publisher/internal/kept"
)

// Config says where and how to publish.
type Config struct {
	// URL returns amqp[s]://user:password@host:port/vhost, with several hosts separated by commas. It is called for
	// each new connection, and every other second. If the URL has changed, a new connection replaces the one made with
	// the previous URL.
	URL func() (string, error)
	// TLS returns the settings for amqps and https. It is called for each new connection. nil means the system's
	// authorities. An empty ServerName means the URL's host.
	TLS func() (*tls.Config, error)
	// Mechanism is the SASL mechanism: PLAIN, AMQPLAIN or EXTERNAL. If it is empty, the URL's parameter auth_mechanism
	// applies, and without that PLAIN.
	Mechanism string
	// Tokens is the source of the token that takes the place of the password (OAuth 2.0); nil if there is none. It is
	// asked for each connection, and every other second. If the token has changed, a new connection replaces the
	// existing one.
	Tokens publisher.Tokens
	// Exchange is the exchange for messages that name none. "" is the default exchange, on which the topic names a
	// queue.
	Exchange string
	// Unrouted lets messages be published without a route. Messages that no queue takes count as accepted, and are
	// lost. It is for exchanges that return messages which they deliver later (x-delayed-message).
	Unrouted bool
	// Management returns the URL of RabbitMQ's management interface, http[s]://user:password@host:port, for reports.
	// Without a user in this URL, the login of URL is used. nil if there is none.
	Management func() (string, error)
	// Name is the connection's name in the broker's displays.
	Name string
	// SettingName returns the user's name for a field of this configuration, or for a part of a field (TLS.RootCAs).
	// The name, for example that of a variable, appears in errors that ask the user to change the setting. If
	// SettingName is nil or returns "", the field's own name is used.
	SettingName func(field string) string
	// Dial makes the network connection; nil tries all addresses of the host.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets one line for each change of the connection's state; nil discards them.
	Logger *slog.Logger
}

// A Publisher publishes to one broker or cluster. It implements [publisher.Publisher]. Its methods may be called
// concurrently. All calls share one connection, which a goroutine of the keeper makes and watches from the first call
// until Close; each call has a channel of its own.
type Publisher struct {
	config Config
	names  setting.Names
	log    *slog.Logger

	life   *connect.Lifetime // counts calls, and the background work of connections
	keeper *connect.Keeper[*connection]
	// The following fields belong to the keeper's goroutine.
	host    int       // index of the URL's host to try first
	leaveAt time.Time // earliest time at which a node that confirms nothing is left

	large  atomic.Int64 // payload size in bytes above which a message goes alone
	routes routes
	kept   kept.Table[*owed]
}

// New returns a publisher that connects when it is first used. It cannot fail: the URL is read when the connection is
// made, and what is wrong with it is then the answer of Ping and Publish.
func New(config Config) *Publisher {
	p := &Publisher{
		config: config, names: config.SettingName, log: cmp.Or(config.Logger, slog.New(slog.DiscardHandler)),
		life: connect.NewLifetime(),
	}
	p.keeper = p.newKeeper()
	p.large.Store(firstLarge)
	if p.config.Dial == nil {
		p.config.Dial = connect.Dial
	}
	if config.Unrouted {
		p.log.Warn("rows count as relayed although no queue may take them, and then are lost", "setting",
			p.names.Of("Unrouted"))
	}
	return p
}

// Publish implements [publisher.Publisher]. Whatever ends the call early, end gives an answer to every message.
func (p *Publisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	if !p.life.Enter() {
		return slices.Repeat([]error{publisher.ErrClosed}, len(messages))
	}
	defer p.life.Leave()
	b := p.newBatch(ctx, messages)
	if len(messages) > 0 {
		b.end(p.publish(ctx, b))
	}
	return b.answers
}

// publish returns nil if every message has its answer, or else the answer for messages that were not sent. A connection
// that is replaced meanwhile stays open until the call has given it back.
func (p *Publisher) publish(ctx context.Context, b *batch) error {
	if ctx.Err() != nil || b.stop.Closed() {
		return publisher.ErrNotAttempted
	}
	p.kept.Sweep()
	conn, err := p.keeper.Borrow(ctx, false)
	if err != nil {
		return err
	}
	defer func() {
		conn.Users.Add(-1)
		if ctx.Err() != nil {
			p.keeper.Look() // something has not been answered
		}
	}()
	if err := conn.usable(); err != nil {
		return err
	}
	// Confirms of earlier calls come first: an accepted message makes the next one of its key ready.
	b.answerRemembered()
	// Each iteration uses one channel. A channel that ends, or that another one takes the place of, has answered a
	// message.
	for !b.done() {
		if err := conn.usable(); err != nil {
			return err
		}
		if err := b.lookForExchanges(ctx, conn); err != nil {
			return err
		}
		ch, err := conn.take(ctx)
		if err != nil {
			return err
		}
		if err := b.runOn(ctx, ch); err != nil {
			return err
		}
	}
	return nil
}

// Ping implements [publisher.Publisher]. It blocks until ctx ends at most. A broker that blocks publishing is an error
// here, too, although the connection is alive: messages would not be taken now. The exchange is looked for each time,
// so that readiness notices that it was deleted.
func (p *Publisher) Ping(ctx context.Context) error {
	if !p.life.Enter() {
		return publisher.ErrClosed
	}
	defer p.life.Leave()
	p.kept.Sweep()
	conn, err := p.keeper.Borrow(ctx, true)
	if err != nil {
		return err
	}
	defer conn.Users.Add(-1)
	if err = conn.usable(); err == nil {
		err = conn.checkExchange(ctx, p.config.Exchange, false, true)
	}
	if ctx.Err() != nil && (err == nil || errors.Is(err, publisher.ErrNotAttempted)) {
		p.keeper.Look()
		return unavailable("no answer", "RabbitMQ did not answer the ping: %w", context.Cause(ctx))
	}
	return err
}

// Close implements [publisher.Publisher]. It tells the broker, and waits a second for its reply. Calls that are under
// way end with the connection, and their messages without an answer are ambiguous.
func (p *Publisher) Close() error {
	p.life.End()
	return nil
}

// Unanswered implements [publisher.Debtor].
func (p *Publisher) Unanswered() int { return p.kept.Waiting() }

// Protocol implements [publisher.Speaker].
func (p *Publisher) Protocol() publisher.Protocol { return publisher.ProtocolAMQP }
