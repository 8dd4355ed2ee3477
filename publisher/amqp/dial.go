package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

const (
	dialTimeout = 5 * time.Second // for each host, including the AMQP handshake
	heartbeat   = 10 * time.Second
)

// connect returns the live connection, or makes one. The caller gives it back with release. Soon after a failure,
// connect returns that failure. If look is true, it compares the connection's login with the current one.
func (p *Publisher) connect(ctx context.Context, look bool) (*connection, error) {
	if live := p.live.Load(); live != nil && !look && live.quiet() && live.users.Use() {
		return live, nil
	}
	select {
	case p.dialing <- struct{}{}:
		defer func() { <-p.dialing }()
	case <-ctx.Done():
		return nil, publisher.ErrNotAttempted
	}
	if live := p.live.Load(); live != nil {
		if live.accepts.Load() > 0 {
			p.backoff.Reset()
		}
		if !live.amqp.IsClosed() && !live.silent() {
			live = p.renewed(ctx, live)
			live.users.Use() // no other call can retire it in the meantime
			return live, nil
		}
		// A connection that dies before it has done anything counts as a failed attempt. Otherwise, if something kills
		// each connection, the next one would be tried without a pause.
		if live.accepts.Load() == 0 {
			p.fail(live.usable())
		}
		p.live.Store(nil)
		if !live.amqp.IsClosed() {
			p.log.Warn("rabbitmq sends nothing any more, so another connection is made", "address", live.address)
			p.host++
			p.replace(live)
		}
	}
	if time.Now().Before(p.retryAt) {
		return nil, *p.failed.Load()
	}
	conn, err := p.open(ctx)
	switch {
	case err == nil:
		p.retryAt = time.Time{}
		conn.users.Use()
		return conn, nil
	case errors.Is(err, publisher.ErrClosed), errors.Is(err, publisher.ErrNotAttempted):
		return nil, err
	}
	if known := p.failed.Load(); known == nil || errtext.Line(*known) != errtext.Line(err) {
		p.log.Debug("rabbitmq cannot be reached", "error", err) // the caller reports it
	}
	p.fail(err)
	return nil, err
}

// quiet reports whether nothing about the connection is to be looked at before it is used.
func (c *connection) quiet() bool {
	return !c.refused.Load() && c.futile.Load() == 0 && !c.amqp.IsClosed() && !c.silent()
}

// open makes a connection, which becomes the live one.
func (p *Publisher) open(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life.Ctx, cancel)() //nolint:contextcheck // Close ends the dial
	conn, err := p.dial(ctx)
	switch {
	case err == nil:
		p.log.Info("rabbitmq connected", "address", conn.address)
		p.live.Store(conn)
		p.failed.Store(nil)
		return conn, nil
	case p.life.Over():
		return nil, publisher.ErrClosed
	case errors.Is(ctx.Err(), context.Canceled): // ended by the caller: not a failure
		return nil, publisher.ErrNotAttempted
	}
	return nil, err
}

// fail begins or lengthens the time in which no call dials.
func (p *Publisher) fail(err error) {
	p.failed.Store(&err)
	p.retryAt = time.Now().Add(p.backoff.After(err))
}

// dial tries each of the URL's hosts once, beginning with the one that worked last, and returns the first connection
// that is made. The hosts' errors are in the URL's order, so that the same situation gives the same text.
func (p *Publisher) dial(ctx context.Context) (*connection, error) {
	url, err := p.config.URL()
	if err != nil {
		return nil, unavailable("no publish URL", "read the publish URL: %w", err)
	}
	urls, err := addresses(url, p.names)
	if err != nil {
		return nil, err
	}
	token, err := p.token(ctx)
	if err != nil {
		return nil, err
	}
	errs := make([]any, len(urls))
	var last error
	race := connect.Race[*connection]{
		Again: len(urls), Go: p.life.Go,
		Open: func(ctx context.Context, host int) (*connection, error) {
			return p.dialOne(ctx, urls[host], token, nil)
		},
		Drop: func(late *connection) { late.close() },
		Ended: func(host int, err error) {
			if errs[host], last = err, err; err == nil {
				p.host = host
			}
		},
	}
	for i := range urls {
		race.Turns = append(race.Turns, (p.host+i)%len(urls))
	}
	conn, _, won := race.Run(ctx)
	if won {
		conn.url = url
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, last
	}
	if len(errs) == 1 {
		return nil, errs[0].(error)
	}
	return nil, unavailable(publisher.ShortOf(errs[0].(error)),
		"none of the hosts can be used: %w"+strings.Repeat("; %w", len(errs)-1), errs...)
}

// dialOne makes the network connection, with TLS if the URL says so, logs in, and opens as many channels as a limit
// allows that another connection has met.
func (p *Publisher) dialOne(ctx context.Context, url, token string, limit *tooMany) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	uri, err := amqp091.ParseURI(url)
	if err != nil {
		return nil, errURL
	}
	if p.config.Tokens != nil {
		uri.Username, uri.Password = userIn(url), token
	}
	config := amqp091.Config{Heartbeat: heartbeat, Properties: amqp091.NewConnectionProperties()}
	config.Properties.SetClientConnectionName(p.config.Name)
	if config.SASL, err = logins(uri, config.Properties, p.config.Mechanism); err != nil {
		return nil, err
	}
	a := &attempt{uri: uri, secure: uri.Scheme == "amqps", token: p.config.Tokens != nil, names: p.names}
	for _, way := range config.SASL {
		a.mechanisms = append(a.mechanisms, way.Mechanism())
	}
	raw, err := p.config.Dial(ctx, "tcp", address(uri))
	if err != nil {
		return nil, a.explain(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn := &connection{
		p: p, made: time.Now(), address: address(uri), token: token,
		ended: make(chan struct{}), busy: map[*channel]struct{}{},
	}
	if !a.token && !slices.Contains(a.mechanisms, mechanismExternal) {
		conn.user = uri.Username
	}
	link := raw
	if a.secure {
		link, err = p.handshake(ctx, raw, uri.Host)
	}
	if err == nil {
		conn.socket = newSocket(link, raw, conn.wake, p.life.Go)
		a.socket = conn.socket
		config.Dial = func(string, string) (net.Conn, error) { return conn.socket, nil }
		// Otherwise the library would put its own TLS session above the socket, and each message into a record of its
		// own.
		conn.amqp, err = amqp091.DialConfig("amqp"+strings.TrimPrefix(url, uri.Scheme), config)
	}
	if err == nil {
		conn.start()
		err = conn.fill(limit)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		if limit, ok := errors.AsType[*tooMany](err); ok && limit.allowed > 0 && ctx.Err() == nil {
			return p.dialOne(ctx, url, token, limit)
		}
		if ctx.Err() != nil {
			err = ctx.Err() // the handshake saw only that the socket was closed
		} else if server, ok := errors.AsType[*amqp091.Error](err); ok && a.token &&
			(server.Code == amqp091.AccessRefused || errors.Is(err, amqp091.ErrCredentials)) {
			p.config.Tokens.Refused(token)
		}
		return nil, a.explain(err)
	}
	return conn, nil
}

// errTLS reports that the configured TLS settings cannot be used.
type errTLS struct{ err error }

func (e *errTLS) Error() string { return e.err.Error() }

// handshake begins a TLS session with the current settings.
func (p *Publisher) handshake(ctx context.Context, raw net.Conn, host string) (net.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.config.TLS != nil {
		given, err := p.config.TLS()
		if err != nil {
			return nil, &errTLS{err}
		}
		config = given.Clone()
	}
	config.ServerName = cmp.Or(config.ServerName, host)
	client := tls.Client(raw, config)
	return client, client.HandshakeContext(ctx)
}
