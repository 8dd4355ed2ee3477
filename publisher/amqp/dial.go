package amqp

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	dialTimeout = 5 * time.Second // for each host, the AMQP handshake included
	heartbeat   = 10 * time.Second
	backoffMin  = 50 * time.Millisecond
	backoffMax  = time.Second
)

// connect returns the live connection or makes one. Soon after a failure it returns that failure.
func (p *Publisher) connect(ctx context.Context) (*connection, error) {
	select {
	case p.dialing <- struct{}{}:
		defer func() { <-p.dialing }()
	case <-ctx.Done():
		return nil, publisher.ErrNotAttempted
	}
	if p.live != nil {
		if p.live.useful.Load() {
			p.backoff = 0
		}
		if !p.live.amqp.IsClosed() {
			return p.live, nil
		}
		// A connection that dies before it has done anything counts as a failed attempt, else
		// something that kills each one would be tried without a pause.
		if !p.live.useful.Load() {
			p.fail(p.live.lost())
		}
		p.live = nil
	}
	if time.Now().Before(p.retryAt) {
		return nil, p.failed
	}

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
		p.live, p.failed, p.retryAt = conn, nil, time.Time{}
		return conn, nil
	case !p.abortable(nil):
		return nil, publisher.ErrClosed
	case errors.Is(ctx.Err(), context.Canceled): // by the caller: nobody's failure
		return nil, publisher.ErrNotAttempted
	}
	if p.failed == nil || publisher.ShortOf(p.failed) != publisher.ShortOf(err) {
		p.log.Warn("rabbitmq cannot be reached", "reason", publisher.ShortOf(err), "error", err)
	}
	p.fail(err)
	return nil, err
}

// fail begins or lengthens the time in which nobody dials.
func (p *Publisher) fail(err error) {
	p.backoff = min(max(2*p.backoff, backoffMin), backoffMax)
	p.failed = err
	p.retryAt = time.Now().Add(p.backoff/2 + rand.N(p.backoff/2))
}

// abortable lets Close end the dial under way, unless it was called already.
func (p *Publisher) abortable(cancel context.CancelFunc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abort = cancel
	return !p.closed
}

// dial tries each of the URL's hosts once, first the one that worked last.
func (p *Publisher) dial(ctx context.Context) (*connection, error) {
	url, err := p.config.URL()
	if err != nil {
		return nil, unavailable("no publish URL", "read the publish URL: %w", err)
	}
	urls, err := addresses(url)
	if err != nil {
		return nil, err
	}
	for range urls {
		var conn *connection
		conn, err = p.dialOne(ctx, urls[p.host%len(urls)])
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			break
		}
		p.host = (p.host + 1) % len(urls)
	}
	return nil, err
}

func (p *Publisher) dialOne(ctx context.Context, url string) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	uri, err := amqp091.ParseURI(url)
	if err != nil {
		return nil, errURL
	}
	conn := &connection{address: address(uri), typed: p.config.TypedHeaders, log: p.log, running: &p.running, exchanges: map[string]struct{}{}, busy: map[*channel]struct{}{}}
	stop := func() bool { return true }
	config := amqp091.Config{
		Heartbeat:  heartbeat,
		Properties: amqp091.NewConnectionProperties(),
		Dial: func(network, address string) (net.Conn, error) {
			raw, err := p.config.Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			stop = context.AfterFunc(ctx, func() { _ = raw.Close() })
			conn.socket = &socket{Conn: raw, dispatched: conn.wake}
			return conn.socket, nil
		},
	}
	config.Properties.SetClientConnectionName(p.config.Name)
	if config.SASL, err = logins(uri, config.Properties); err != nil {
		return nil, err
	}
	if p.config.TLS != nil {
		config.TLSClientConfig = p.config.TLS.Clone() // the library writes a server name into it
	}

	conn.amqp, err = amqp091.DialConfig(url, config)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if conn.socket != nil {
			_ = conn.socket.Close()
		}
		if ctx.Err() != nil {
			err = ctx.Err() // the handshake only saw the socket closed
		}
		return nil, explain(uri, err)
	}
	conn.start()
	return conn, nil
}
