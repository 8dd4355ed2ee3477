package nats

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
	"github.com/outbox-relay/outbox-relay/publisher/internal/kept"
)

// defaultTimeout is Config.Timeout if it is not set. It is the relay's own default for a publish
// (OUTBOX_PUBLISH_TIMEOUT).
const defaultTimeout = 10 * time.Second

// Config says how to reach the servers. Only Servers is required.
type Config struct {
	// Servers are any number of servers of one cluster, as host:port or nats://host:port. The cluster's other servers
	// are learned from the one that is reached.
	Servers []string
	// TLS is called before each attempt to connect, so that rotated certificates take effect. If it is not nil, TLS is
	// required. An empty ServerName means the host of the server.
	TLS func() (*tls.Config, error)
	// TLSFirst starts TLS before the server's greeting, for servers with handshake_first.
	TLSFirst bool
	// Stream, if not empty, is the only stream that may take the messages. A subject that another stream takes is held
	// as [publisher.Topology].
	Stream string
	// Domain, if not empty, is the JetStream domain that is asked for streams. Otherwise it is the domain of the
	// server.
	Domain string
	// InboxPrefix is the prefix of the subjects on which acknowledgements arrive, for users who may not subscribe to
	// all of _INBOX.>. If it is empty, the prefix is _INBOX.
	InboxPrefix string
	// Auth, if not nil, is called before each attempt to connect, and every other second. If its result has changed, a
	// new connection replaces the existing one.
	Auth func() (Auth, error)
	// Name is the name in the server's list of connections.
	Name string
	// SettingName returns the user's name for a field of this configuration, or for a part of a field (TLS.RootCAs).
	// The name, for example that of a variable, appears in errors that ask the user to change the setting. If
	// SettingName is nil or returns "", the field's own name is used.
	SettingName func(field string) string
	// Dial opens connections; nil tries all addresses of the host.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Timeout is how long the acknowledgement of a message is waited for, in one call or several, before the message is
	// sent again; the default is ten seconds. With a time shorter than the stream needs in trouble, such as an election
	// of a leader, each message is sent several times. The stream drops the copies only within its duplicate window.
	Timeout time.Duration
	// Logger gets one line for each change of the connection's state; nil logs nothing.
	Logger *slog.Logger
}

// A Publisher publishes to one NATS account. Its methods may be called concurrently: all calls share one connection,
// which a goroutine of the keeper makes and watches from the first call until Close.
type Publisher struct {
	config         Config
	names          setting.Names
	servers        []server
	connectTimeout time.Duration // see the constant
	patience       time.Duration // see firstPatience

	kept   kept.Table[*owed]
	life   *connect.Lifetime // of the keeper's goroutine
	keeper *connect.Keeper[*link]
	last   *link // has learned the servers of the cluster; belongs to the keeper's goroutine
}

var _ publisher.Publisher = (*Publisher)(nil)

// New returns a publisher that connects when it is first used. It fails only if the configuration can never work.
// Addresses that cannot be resolved or reached are the answer of Ping and Publish, because they may work later.
func New(config Config) (*Publisher, error) {
	servers, err := parseServers(config.Servers)
	if err != nil {
		return nil, err
	}
	if config.Dial == nil {
		config.Dial = connect.Dial
	}
	config.Timeout = cmp.Or(config.Timeout, defaultTimeout)
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	p := &Publisher{
		config: config, names: config.SettingName, servers: servers,
		connectTimeout: connectTimeout, patience: firstPatience, life: connect.NewLifetime(),
	}
	p.keeper = p.newKeeper()
	return p, nil
}

// Publish implements [publisher.Publisher]. A call lends the link for its duration, so that a link that was replaced
// stays open until the calls on it have their answers.
//
// A call whose time is over may have waited for a connection that is dead. It asks for a check, so that the next call
// finds another connection.
func (p *Publisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	if len(messages) == 0 {
		return nil
	}
	p.kept.Sweep()
	link, err := p.keeper.Borrow(ctx, false)
	if err != nil {
		return slices.Repeat([]error{err}, len(messages))
	}
	defer link.Users.Add(-1)
	c := link.take()
	defer link.give(c)
	errs := make([]error, len(messages))
	c.publish(ctx, messages, errs)
	if ctx.Err() != nil {
		link.doubt()
	}
	return errs
}

// Close implements [publisher.Publisher]. The keeper's goroutine closes the connection, with which the calls under way
// end: their messages without an answer are ambiguous.
func (p *Publisher) Close() error {
	p.life.End()
	return nil
}

// Unanswered implements [publisher.Debtor].
func (p *Publisher) Unanswered() int { return p.kept.Waiting() }

// Protocol implements [publisher.Speaker].
func (p *Publisher) Protocol() publisher.Protocol { return publisher.ProtocolNATS }
