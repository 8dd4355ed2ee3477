package amqp

import (
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

// dial tries each of the URL's hosts once, beginning with the one that worked last, and returns the first connection
// that is made. If there is none, the next try begins with the next host: each is the last one in its turn, and has all
// the time it needs then. The hosts' errors are in the URL's order, so that the same situation gives the same text. It
// runs in the keeper's goroutine and blocks until a host takes the connection or all have failed. The URL and the token
// are those of this moment.
func (p *Publisher) dial(ctx context.Context) (*connection, error) {
	url, err := p.config.URL()
	if err != nil {
		return nil, unavailable("no publish URL", "read the publish URL: %w", err)
	}
	urls, err := addresses(url)
	if err != nil {
		return nil, err
	}
	token, err := p.newToken(ctx)
	if err != nil {
		return nil, err
	}
	errs := make([]any, len(urls))
	var turns []int
	for i := range urls {
		turns = append(turns, (p.host+i)%len(urls))
	}
	one := func(ctx context.Context, host int) (*connection, error) {
		conn, err := p.dialOne(ctx, urls[host], token, mostChannels, "")
		if errs[host] = err; err == nil {
			p.host = host
		}
		return conn, err
	}
	conn, err := connect.InTurn(ctx, connect.LoginTurn, turns, one)
	if err == nil {
		conn.url = url
		p.log.Info("rabbitmq connected", "address", conn.address)
		if conn.limit != "" {
			p.log.Warn("rabbitmq allows few channels, so batches take turns", "channels", cap(conn.pool), "reason",
				conn.limit)
		}
		return conn, nil
	}
	p.host++
	if ctx.Err() != nil {
		return nil, err
	}
	if len(errs) == 1 {
		return nil, errs[0].(error)
	}
	return nil, unavailable(publisher.ShortOf(errs[0].(error)),
		"none of the hosts can be used: %w"+strings.Repeat("; %w", len(errs)-1), errs...)
}

// dialOne makes the network connection, with TLS if the URL says so, logs in, and opens the channels. limit is why they
// are fewer than mostChannels. It blocks for dialTimeout at most. If the broker ends the connection at one channel too
// many, the same host is dialled once more, for as many as it has opened: only their number tells how many are allowed,
// because the broker's text names its own limit, of which other clients of the user may have a part.
func (p *Publisher) dialOne(ctx context.Context, url, token string, channels int, limit string) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	uri, _ := amqp091.ParseURI(url) // addresses has parsed it
	if p.config.Tokens != nil {
		uri.Username, uri.Password = userIn(url), token
	}
	properties := amqp091.NewConnectionProperties()
	properties.SetClientConnectionName(p.config.Name)
	way, err := newLogin(uri, properties, p.config.Mechanism)
	if err != nil {
		return nil, err
	}
	config := amqp091.Config{Heartbeat: heartbeat, Properties: properties, SASL: []amqp091.Authentication{way}}
	a := &attempt{uri: uri, token: p.config.Tokens != nil, mechanism: way.Mechanism(), names: p.names}
	raw, err := p.config.Dial(ctx, "tcp", address(uri))
	if err != nil {
		return nil, a.explain(err)
	}
	// The library's handshake takes no context. Closing the socket is what ends it.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn := &connection{
		State: connect.State{Ended: make(chan struct{})}, p: p, made: time.Now(), address: address(uri), uri: uri,
		limit: limit, busy: map[*channel]struct{}{},
	}
	// Only then does the broker know the user under the name in the URL, which user_id is compared with.
	if !a.token && a.mechanism != mechanismExternal {
		conn.user = uri.Username
	}
	link := raw
	if uri.Scheme == "amqps" {
		var config *tls.Config
		if config, err = connect.TLS(p.config.TLS, uri.Host); err == nil {
			secure := tls.Client(raw, config)
			link, err = secure, secure.HandshakeContext(ctx)
		}
	}
	if err == nil {
		conn.socket = newSocket(link, raw, conn)
		a.socket = conn.socket
		// The library gets a connection that is made already, with TLS below its own view.
		config.Dial = func(string, string) (net.Conn, error) { return conn.socket, nil }
		// Otherwise the library would put its own TLS session above the socket, and each message into a record of its
		// own.
		conn.amqp, err = amqp091.DialConfig("amqp"+strings.TrimPrefix(url, uri.Scheme), config)
	}
	opened := 0
	if err == nil {
		conn.start()
		opened, err = conn.fill(channels)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		return conn, nil
	}
	_ = raw.Close()
	server, ok := errors.AsType[*amqp091.Error](err)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err() // the handshake saw only that the socket was closed
	case ok && opened > 0 && slices.Contains(oneTooMany, server.Code):
		return p.dialOne(ctx, url, token, opened, errtext.Line(server))
	case ok && a.token && server.Code == amqp091.AccessRefused:
		p.config.Tokens.Refused(token)
	}
	return nil, a.explain(err)
}
