package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	dialTimeout = 5 * time.Second // for each host, the AMQP handshake included
	heartbeat   = 10 * time.Second
	backoffMin  = 50 * time.Millisecond
	// backoffQuiet is the longest while nobody answers, which a broker that comes back should not wait for: rows
	// are to flow within a second of its return, and whoever calls has a backoff of its own.
	backoffQuiet = 250 * time.Millisecond
	// backoffMax is the longest while somebody refuses us, and logs that each time.
	backoffMax = time.Second
)

// connect returns the live connection, or makes one; release gives it back. Soon after a failure it returns that failure.
// look has it compare the connection's login with the present one.
func (p *Publisher) connect(ctx context.Context, look bool) (*connection, error) {
	if live := p.live.Load(); live != nil && !look && !live.refused.Load() && !live.amqp.IsClosed() && live.use() {
		return live, nil
	}
	select {
	case p.dialing <- struct{}{}:
		defer func() { <-p.dialing }()
	case <-ctx.Done():
		return nil, publisher.ErrNotAttempted
	}
	if live := p.live.Load(); live != nil {
		if live.useful.Load() {
			p.backoff = 0
		}
		if !live.amqp.IsClosed() {
			live = p.renewed(ctx, live)
			live.use() // nobody retires it meanwhile
			return live, nil
		}
		// A connection that dies before it has done anything counts as a failed attempt, else
		// something that kills each one would be tried without a pause.
		if !live.useful.Load() {
			p.fail(live.lost())
		}
		p.blocked = live.blocked.Load()
		p.live.Store(nil)
		if live.silent() {
			p.host++
		}
	}
	if time.Now().Before(p.retryAt) {
		return nil, p.failed
	}
	conn, err := p.open(ctx)
	switch {
	case err == nil:
		p.retryAt = time.Time{}
		conn.use()
		return conn, nil
	case errors.Is(err, publisher.ErrClosed), errors.Is(err, publisher.ErrNotAttempted):
		return nil, err
	}
	if p.failed == nil || errtext.Line(p.failed) != errtext.Line(err) {
		p.log.Debug("rabbitmq cannot be reached", "error", err) // whoever asked says so
	}
	p.fail(err)
	return nil, err
}

// open makes a connection, which is the live one then.
func (p *Publisher) open(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !p.abortable(cancel) {
		return nil, publisher.ErrClosed
	}
	defer p.abortable(nil)
	conn, err := p.dial(ctx)
	switch {
	case err == nil:
		p.log.Info("rabbitmq connected", "address", conn.address)
		p.live.Store(conn)
		p.blocked = nil
		p.remember(nil)
		return conn, nil
	case !p.abortable(nil):
		return nil, publisher.ErrClosed
	case errors.Is(ctx.Err(), context.Canceled): // by the caller: nobody's failure
		return nil, publisher.ErrNotAttempted
	}
	return nil, err
}

// fail begins or lengthens the time in which nobody dials.
func (p *Publisher) fail(err error) {
	longest := backoffMax
	if link, ok := errors.AsType[*linkError](err); ok && link.absent {
		longest = backoffQuiet
	}
	p.backoff = min(max(2*p.backoff, backoffMin), longest)
	p.remember(err)
	p.retryAt = time.Now().Add(p.backoff/2 + rand.N(p.backoff/2))
}

func (p *Publisher) remember(failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = failed
}

// stillDialing returns what can be said when the time is over and another call still makes the connection: what
// the last one failed with, or that the host does not answer. That is what the other call will say as well if
// nothing changes, so that nobody logs two texts in turn. It returns err when no host was tried yet.
func (p *Publisher) stillDialing(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failed != nil:
		return p.failed
	case p.trying != nil:
		return p.trying.explain(context.DeadlineExceeded)
	}
	return err
}

// abortable lets Close end the dial under way, unless it was called already.
func (p *Publisher) abortable(cancel context.CancelFunc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abort = cancel
	return !p.closed
}

// stagger is how long a host has to take us before the next one is tried beside it.
const stagger = 250 * time.Millisecond

// dialled is how the try of a host has ended.
type dialled struct {
	host int
	conn *connection
	err  error
}

// dial tries each of the URL's hosts once, first the one that worked last, and returns the first connection that is made. The hosts'
// errors are given in the URL's order, so that the same state of affairs has the same text.
func (p *Publisher) dial(ctx context.Context) (*connection, error) {
	url, err := p.config.URL()
	if err != nil {
		return nil, unavailable("no publish URL", "read the publish URL: %w", err)
	}
	urls, err := addresses(url)
	if err != nil {
		return nil, err
	}
	token, err := p.token(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ends := make(chan dialled, len(urls))
	begun, ended := 0, 0
	defer func() {
		cancel()
		p.running.Go(func() {
			for ; ended < begun; ended++ {
				if late := <-ends; late.conn != nil {
					late.conn.close()
				}
			}
		})
	}()
	next := time.NewTimer(0)
	defer next.Stop()
	errs := make([]any, len(urls))
	for first := p.host; ended < len(urls); {
		select {
		case <-next.C:
		case end := <-ends:
			ended++
			if end.err == nil {
				p.host, end.conn.url = end.host, url
				return end.conn, nil
			}
			if ctx.Err() != nil {
				return nil, end.err
			}
			errs[end.host] = end.err
		}
		if begun < len(urls) {
			host := (first + begun) % len(urls)
			begun++
			p.running.Go(func() {
				conn, err := p.dialOne(ctx, urls[host], token)
				ends <- dialled{host, conn, err}
			})
			next.Reset(stagger)
		}
	}
	if len(errs) == 1 {
		return nil, errs[0].(error)
	}
	return nil, unavailable(publisher.ShortOf(errs[0].(error)),
		"none of the hosts can be used: %w"+strings.Repeat("; %w", len(errs)-1), errs...)
}

// dialOne makes the network connection, with TLS if the URL says so, and logs in.
func (p *Publisher) dialOne(ctx context.Context, url, token string) (*connection, error) {
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
	a := &attempt{uri: uri, secure: uri.Scheme == "amqps", token: p.config.Tokens != nil}
	p.mu.Lock()
	p.trying = &attempt{uri: uri, secure: a.secure, token: a.token}
	p.mu.Unlock()
	for _, way := range config.SASL {
		a.mechanisms = append(a.mechanisms, way.Mechanism())
	}
	raw, err := p.config.Dial(ctx, "tcp", address(uri))
	if err != nil {
		return nil, a.explain(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn := &connection{seed: maphash.MakeSeed(), made: time.Now(), patience: patienceMin, address: address(uri), user: p.userOf(uri, config.SASL),
		token: token, ended: make(chan struct{}), typed: p.config.TypedHeaders,
		unrouted: p.config.Unrouted, log: p.log,
		running:   &p.running,
		exchanges: map[string]struct{}{}, busy: map[*channel]struct{}{}}
	link := raw
	if a.secure {
		link, err = p.handshake(ctx, raw, uri.Host)
	}
	if err == nil {
		conn.socket = &socket{Conn: link, raw: raw, dispatched: conn.wake}
		a.socket = conn.socket
		config.Dial = func(string, string) (net.Conn, error) { return conn.socket, nil }
		// The library would put a TLS session of its own above the socket, and each message into a record.
		conn.amqp, err = amqp091.DialConfig("amqp"+strings.TrimPrefix(url, uri.Scheme), config)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			err = ctx.Err() // the handshake only saw the socket closed
		} else if server, ok := errors.AsType[*amqp091.Error](err); ok && a.token && (server.Code == amqp091.AccessRefused || errors.Is(err, amqp091.ErrCredentials)) {
			p.config.Tokens.Refused(token)
		}
		return nil, a.explain(err)
	}
	conn.start(p.blocked)
	return conn, nil
}

// errTLS is that our own TLS settings cannot be used.
type errTLS struct{ err error }

func (e *errTLS) Error() string { return e.err.Error() }

// handshake begins a TLS session with the settings as they are now.
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
