package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

const (
	connectTimeout = 5 * time.Second // for one server, including greeting and authentication
	pingInterval   = 10 * time.Second
	reasonTime     = 200 * time.Millisecond // for reading why the server has ended the connection
)

// dialFunc is a nats.CustomDialer. nats.go asks it for each connection, with the address in the options.
type dialFunc func(network, address string) (net.Conn, error)

func (d dialFunc) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// open connects to a server and makes sure that the server's answers will arrive. It blocks until the server has
// greeted, the login is accepted and the subscription for answers is confirmed, for five seconds at most. The
// credentials and certificates are those of this moment. What is known of a failed try (whether the socket was
// connected, and whether anything was read) goes to explain, because nats.go's own errors do not say.
func (p *Publisher) open(ctx context.Context, s server) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, p.connectTimeout)
	defer cancel()
	options, auth, err := p.options(s)
	try := attempt{server: s, inboxes: inboxes(p.config.InboxPrefix), tls: options.Secure, names: p.names}
	if err != nil {
		return nil, answer(try.explain(err))
	}
	l := &link{
		p: p, server: s, auth: auth, inboxes: try.inboxes,
		State: connect.State{Ended: make(chan struct{})}, closed: make(chan struct{}),
		calls: map[uint64]*call{}, owed: map[place]*owed{},
	}
	// The name is random, so that nobody else can be subscribed to the answers of this link or write to its inbox by
	// accident.
	l.inbox = l.inboxes + rand.Text()[:12] + "."
	options.ClosedCB = func(*nats.Conn) { close(l.closed) }
	options.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) { l.failed(err) }
	var refused error // nats.go does not return the reason why dialling failed
	connecting := func() bool { return true }
	options.CustomDialer = dialFunc(func(kind, address string) (net.Conn, error) {
		socket, err := p.config.Dial(ctx, kind, address)
		if err != nil {
			refused = err
			return nil, err
		}
		l.conn = &connect.Conn{Conn: socket, Heard: l.Heard, Go: func(f func()) { go f() }}
		// A read that is under way ends after it has read the server's reason, if there is one: a server that rejects a
		// client sends -ERR and then closes, and a write may fail while that line is still unread.
		l.conn.Ended = func() { _ = socket.SetReadDeadline(time.Now().Add(reasonTime)) }
		// nats.go does not use a context. Closing the socket is what ends its handshake.
		connecting = context.AfterFunc(ctx, func() { _ = socket.Close() })
		return l.conn, nil
	})
	begun := time.Now()
	l.nc, err = options.Connect()
	if err != nil {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case refused != nil:
			err = refused
		}
		if try.dialled = l.conn != nil; try.dialled {
			_ = l.conn.Close()
			try.heard = !l.QuietSince(begun)
		}
		return nil, answer(try.explain(err))
	}
	// connecting reports false if ctx has ended and closed the socket meanwhile.
	if err = l.begin(ctx); err == nil && connecting() {
		return l, nil
	}
	l.Close()
	if err == nil {
		err = context.Cause(ctx)
	}
	try.dialled, try.heard = true, true
	return nil, answer(try.explain(err))
}

// auth returns the current credentials.
func (p *Publisher) auth() (Auth, error) {
	if p.config.Auth == nil {
		return Auth{}, nil
	}
	given, err := p.config.Auth()
	if err != nil {
		return Auth{}, &credentialsError{err}
	}
	return given, nil
}

// options returns the options of nats.go for a connection to the server, and the credentials in them. Most of them take
// out of nats.go's hands what this package decides: when to connect again, whether the server is gone, how long a write
// may wait. NoEcho keeps the publisher's own messages from coming back to it.
func (p *Publisher) options(s server) (options nats.Options, auth Auth, err error) {
	options = nats.GetDefaultOptions()
	if auth, err = p.auth(); err != nil {
		return options, auth, err
	}
	if err = auth.apply(&options); err != nil {
		return options, auth, &credentialsError{err}
	}
	options.Url = "nats://" + s.address
	options.Name = p.config.Name
	options.InboxPrefix = p.config.InboxPrefix // for the consumers of Read
	options.NoEcho = true
	options.AllowReconnect = false
	options.Timeout = p.connectTimeout
	options.PingInterval = pingInterval
	options.MaxPingsOut = math.MaxInt    // the keeper decides whether a silent server is gone
	options.FlusherTimeout = 0           // writes to conn do not wait
	options.SkipHostLookup = true        // the dialer looks up the host, and stops with its context
	options.SkipSubjectValidation = true // checkSubject is stricter
	if p.config.TLS != nil {
		if options.TLSConfig, err = connect.TLS(p.config.TLS, s.host()); err != nil {
			return options, auth, err
		}
	}
	options.Secure = options.TLSConfig != nil
	options.TLSHandshakeFirst = p.config.TLSFirst
	return options, auth, nil
}

// inboxes returns the prefix of all reply subjects. The default is that of nats.go, _INBOX followed by a dot.
func inboxes(prefix string) string {
	if prefix == "" {
		return nats.InboxPrefix
	}
	return prefix + "."
}

// errInboxDenied reports that the user may not subscribe to the subjects on which answers arrive. Every message would
// be stored and none acknowledged.
var errInboxDenied = errors.New("the user may not subscribe to them")

// begin makes sure that the server lets the answers arrive. A server accepts a subscription without a word, and reports
// a refused one as an error of the connection; only a round trip after it shows that there was none.
func (l *link) begin(ctx context.Context) error {
	// This fails only if the prefix is empty.
	l.js, _ = jetstream.NewWithAPIPrefix(l.nc, l.p.api())
	if err := l.listen(); err != nil {
		return err
	}
	if err := l.nc.FlushWithContext(ctx); err != nil {
		return err
	}
	// A violation is reported before the flush is answered, and nothing else has been requested so far.
	if errors.Is(l.nc.LastError(), nats.ErrPermissionViolation) {
		return errInboxDenied
	}
	return nil
}
