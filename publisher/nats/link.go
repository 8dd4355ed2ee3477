package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	connectTimeout = 5 * time.Second  // for one server, greeting and authentication included
	pingInterval   = 10 * time.Second // a silent server is given up after three of them
	writeBuffer    = 64 << 10
)

// A link is one connection to one server, from its greeting to its end. It never reconnects.
type link struct {
	nc     *nats.Conn
	conn   *conn
	server server
	inbox  string        // prefix of all reply subjects
	closed chan struct{} // closed when the connection has ended and all that was read is in the lanes

	mu    sync.Mutex
	lanes map[*lane]struct{} // all that are subscribed
	idle  []*lane
	made  uint64 // lanes ever made
	blind bool   // the account's information may not be asked for
}

// dialFunc is a nats.CustomDialer.
type dialFunc func(network, address string) (net.Conn, error)

func (d dialFunc) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// open connects to a server and makes sure that its answers will reach us.
func (p *Publisher) open(ctx context.Context, s server) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	options, err := p.options(s)
	if err != nil {
		return nil, explain(s, err)
	}
	l := &link{server: s, closed: make(chan struct{}), lanes: map[*lane]struct{}{},
		inbox: nats.InboxPrefix + rand.Text()[:12] + "."}
	options.ClosedCB = func(*nats.Conn) { close(l.closed) }
	options.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) { l.failed(err) }
	var refused error // nats.go does not hand out why dialling failed
	connecting := func() bool { return true }
	options.CustomDialer = dialFunc(func(network, address string) (net.Conn, error) {
		socket, err := p.config.Dial(ctx, network, address)
		if err != nil {
			refused = err
			return nil, err
		}
		l.conn = &conn{Conn: socket}
		// nats.go knows no context: closing the socket is what ends its handshake.
		connecting = context.AfterFunc(ctx, func() { _ = socket.Close() })
		return l.conn, nil
	})
	l.nc, err = options.Connect()
	if err != nil {
		if refused != nil {
			err = refused
		}
		return nil, explain(s, err)
	}
	if err = l.listen(ctx); err == nil && connecting() {
		return l, nil
	}
	l.close()
	<-l.closed
	if err == nil {
		err = context.Cause(ctx)
	}
	return nil, explain(s, err)
}

// options returns what nats.go is told for a connection to the server.
func (p *Publisher) options(s server) (nats.Options, error) {
	options := nats.GetDefaultOptions()
	auth := s.auth
	if p.config.Auth != nil {
		given, err := p.config.Auth()
		if err != nil {
			return options, &authError{err}
		}
		if !given.empty() {
			auth = given
		}
	}
	if err := auth.apply(&options); err != nil {
		return options, &authError{err}
	}
	options.Url = s.url()
	options.Name = p.config.Name
	options.NoEcho = true
	options.AllowReconnect = false
	options.Timeout = connectTimeout
	options.PingInterval = pingInterval
	options.WriteBufferSize = writeBuffer
	options.FlusherTimeout = 0           // conn sees to it
	options.SkipHostLookup = true        // the dialer looks up, and stops with its context
	options.SkipSubjectValidation = true // checkSubject is stricter
	options.TLSConfig = s.tlsConfig(p.config.TLS)
	options.Secure = options.TLSConfig != nil
	options.TLSHandshakeFirst = p.config.TLSFirst
	return options, nil
}

// errInboxDenied: without answers every message would be stored and none acknowledged.
var errInboxDenied = errors.New("the user may not subscribe to _INBOX.>: grant it, acknowledgements arrive there")

// listen subscribes the first lane and waits for the server to agree.
func (l *link) listen(ctx context.Context) error {
	lane, err := l.subscribe()
	if err != nil {
		return err
	}
	l.idle = append(l.idle, lane)
	if err := l.nc.FlushWithContext(ctx); err != nil {
		return err
	}
	// A violation is reported before the flush is answered, and nothing else was asked so far.
	if errors.Is(l.nc.LastError(), nats.ErrPermissionViolation) {
		return errInboxDenied
	}
	return nil
}

// take returns a lane for one call.
func (l *link) take() (*lane, error) {
	l.mu.Lock()
	if n := len(l.idle); n > 0 {
		lane := l.idle[n-1]
		l.idle = l.idle[:n-1]
		l.mu.Unlock()
		return lane, nil
	}
	l.mu.Unlock()
	lane, err := l.subscribe()
	if err != nil {
		return nil, l.lost()
	}
	return lane, nil
}

// give takes a lane back. One that may still receive answers of its last call is not used again.
func (l *link) give(lane *lane, settled bool) {
	l.mu.Lock()
	if settled {
		l.idle = append(l.idle, lane)
		l.mu.Unlock()
		return
	}
	delete(l.lanes, lane)
	l.mu.Unlock()
	_ = lane.sub.Unsubscribe() // fails only when the connection has ended
}

// subscribe makes a lane.
func (l *link) subscribe() (*lane, error) {
	l.mu.Lock()
	l.made++
	lane := newLane(l, l.inbox+strconv.FormatUint(l.made, 36)+".")
	l.lanes[lane] = struct{}{}
	l.mu.Unlock()
	var err error
	lane.sub, err = l.nc.ChanSubscribe(lane.prefix+"*", lane.acks)
	return lane, err
}

// failed takes the errors that the server reports for the connection as a whole. A publish that is
// not permitted is one of them, and gets no other answer. The protocol has no field for its subject:
// it stands quoted in the text.
func (l *link) failed(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	text := err.Error()
	start := strings.IndexByte(text, '"')
	if start < 0 {
		return
	}
	quoted, err := strconv.QuotedPrefix(text[start:])
	if err != nil {
		return
	}
	subject, err := strconv.Unquote(quoted)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for lane := range l.lanes {
		select {
		case lane.denied <- subject:
		default: // the call has not looked at the earlier ones yet; the next violation tells it again
		}
	}
}

// lost returns the answer for messages that cannot be sent because the connection has ended.
func (l *link) lost() error {
	err := l.nc.LastError()
	if failed := l.conn.failed.Load(); failed != nil {
		err = *failed
	}
	return connectionLost(l.server, err)
}

// discovered returns the configured servers and those that the cluster has told us of.
func (l *link) discovered(configured []server) []server {
	return l.server.with(configured, l.nc.DiscoveredServers())
}

// close ends the connection at once; closed is closed soon after.
func (l *link) close() {
	_ = l.conn.Close() // first, so that nats.go cannot wait for a stalled write
	l.nc.Close()
}
