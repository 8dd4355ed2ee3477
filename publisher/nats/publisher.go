// Package nats publishes to NATS JetStream.
//
// A message counts as accepted once its stream has acknowledged it (PubAck); a plain NATS publish is
// never enough. All messages carry Nats-Msg-Id, so what is sent again within the stream's duplicate
// window is stored once, and the stream's answer "duplicate" is an acceptance.
//
// The server answers each message by itself: it may refuse one and store the next. Order per key
// therefore rests on one rule: of each key at most one message is unacknowledged at any time. A
// key's next message leaves as soon as its last one is acknowledged, and no key waits for another.
// The exception are keys with many messages in a call, on a stream that allows atomic batches (ADR-50):
// those leave together, since the server stores all or none of them. When it stores none, they go
// one by one after all. Otherwise nothing is sent twice within a call, by this package or by the
// library below it.
//
// From nats.go only the connection is used. Its reconnecting is turned off (it holds the
// connection's lock while it dials, keeps what is published meanwhile, and ends for good on some of
// the server's errors), and so are its futures for acknowledgements: each call has an inbox of its
// own and reads the answers in the goroutine that sent the messages.
package nats

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Config says how to reach the servers. Only Servers is required.
type Config struct {
	// Servers are nats://host:port, tls://host:port or host:port, any number of one cluster's, or ws://host:port/path and
	// wss://host:port/path for its WebSocket listeners. The
	// cluster's other servers are learned from the one that is reached. User and password in a URL
	// are taken when Auth has none.
	Servers []string
	// TLS, when not nil, is asked before each attempt to connect, so that rotated certificates are
	// taken, and TLS is required. An empty ServerName is the host of the server.
	TLS func() (*tls.Config, error)
	// TLSFirst starts TLS before the server's greeting, for servers with handshake_first.
	TLSFirst bool
	// Core publishes without JetStream. A message counts as accepted when a server has read it: nothing
	// stores it, and if nobody is subscribed at that moment, nobody ever gets it.
	Core bool
	// Stream, when not empty, is the only stream that may take the messages: a subject that another
	// one takes is held as [publisher.Topology].
	Stream string
	// Domain, when not empty, is the JetStream domain that is asked for streams; empty is that of the server.
	Domain string
	// InboxPrefix is what the subjects begin with where acknowledgements arrive, for users who may not subscribe to all of
	// _INBOX.>, which is what an empty one stands for.
	InboxPrefix string
	// Auth, when not nil, is asked before each attempt to connect and every other second: when its answer has changed, a new
	// connection takes the place of the one that there is.
	Auth func() (Auth, error)
	// Name is shown in the server's list of connections.
	Name string
	// Dial opens connections; nil is net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets one line for each change of the connection's state; nil logs nothing.
	Logger *slog.Logger
}

// A Publisher publishes to one NATS account.
type Publisher struct {
	config         Config
	servers        []server
	logger         *slog.Logger
	connectTimeout time.Duration // see the constant
	hot, hotSynced int           // see hotKey and hotKeySynced

	mu      sync.Mutex
	link    *link         // nil while not connected
	down    error         // why there is no link; nil before the first attempt has ended
	tried   chan struct{} // closed and replaced when an attempt to connect has ended
	closed  bool
	cancel  context.CancelFunc // ends the connecting goroutine; nil until it runs
	stopped chan struct{}      // closed when the connecting goroutine has ended
	hurry   chan struct{}      // holds a wish to connect without waiting

	// Only the connecting goroutine has these:
	answered  map[string]bool // whether an address of the cluster has ever answered
	renewAt   time.Time       // no sooner, after there was no connection with new credentials
	unrenewed string          // why there was none, as last told
}

var _ publisher.Publisher = (*Publisher)(nil)

// New returns a publisher that connects when it is first used. It fails only on a configuration that
// can never work.
func New(config Config) (*Publisher, error) {
	servers, err := parseServers(config.Servers)
	if err != nil {
		return nil, err
	}
	if config.Dial == nil {
		config.Dial = new(net.Dialer).DialContext
	}
	logger := config.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if config.Core {
		logger.Warn("rows count as relayed when a NATS server has read them: core mode stores nothing, and nobody may be subscribed")
	}
	return &Publisher{
		config:  config,
		servers: servers,
		logger:  logger,
		hot:     hotKey, hotSynced: hotKeySynced, connectTimeout: connectTimeout,
		tried:   make(chan struct{}),
		stopped: make(chan struct{}),
		hurry:   make(chan struct{}, 1), answered: map[string]bool{},
	}, nil
}

// Publish implements [publisher.Publisher].
func (p *Publisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	if len(messages) == 0 {
		return nil
	}
	link, err := p.borrow(ctx, p.connected)
	if err != nil {
		return unsent(messages, err)
	}
	defer link.release()
	// A stalled network can hold a write, and whoever waits for it, beyond the end of ctx.
	defer context.AfterFunc(ctx, link.conn.interrupt)()
	lane, err := link.take()
	if err != nil {
		return unsent(messages, err)
	}
	errs := make([]error, len(messages))
	if link.core {
		lane.publishCore(ctx, messages, errs)
		link.give(lane, true)
	} else {
		link.give(lane, lane.publish(ctx, messages, errs))
	}
	if ctx.Err() != nil {
		link.doubt()
	}
	return errs
}

// unsent is the answer for messages of which none was sent.
func unsent(messages []publisher.Message, err error) []error {
	errs := make([]error, len(messages))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// Close implements [publisher.Publisher].
func (p *Publisher) Close() error {
	p.mu.Lock()
	p.closed = true
	cancel := p.cancel
	p.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	select {
	case <-p.stopped:
		return nil
	case <-patience.C:
		return errors.New("close NATS connection: still busy after a second")
	}
}
