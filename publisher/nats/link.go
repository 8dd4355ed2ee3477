package nats

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// queued is the number of answers that may wait to be passed to their calls. It is larger than the windows of all calls
// of the relay together, because the library drops what has no room.
const queued = 1 << 14

// A link is one connection to one server, from its greeting to its end. It never reconnects. nats.go's own reconnecting
// is turned off (see the package's comment), so the end of the connection is the end of the link, and the keeper makes
// another.
//
// One goroutine of the link passes the answers on. Beside it, nats.go calls failed from a goroutine of its own, and
// calls of Publish use the link from theirs. mu is held for moments only.
type link struct {
	connect.State
	p        *Publisher
	nc       *nats.Conn
	js       jetstream.JetStream
	conn     *connect.Conn
	server   server
	auth     Auth          // credentials with which it has logged in
	inboxes  string        // prefix of reply subjects, including those of other clients
	inbox    string        // prefix of all reply subjects of this link
	closed   chan struct{} // closed when the library reads no more; answers may still be on their way to calls
	streams  streams
	blind    atomic.Bool // the account's information may not be requested
	outgrown atomic.Bool // the server takes larger messages now
	dropped  atomic.Bool // this client ends the connection

	mu    sync.Mutex
	calls map[uint64]*call // calls under way, by number
	idle  []*call          // memory for further calls
	made  uint64           // number of calls ever made
	owed  map[place]*owed  // answers for which no call waits
}

// listen subscribes to the answers and passes them on until the connection ends. The subscription must exist before
// anything is published: an answer that arrives without one is lost. Ended is closed only when every answer that the
// library had read is with its call: a call that ends with the link first takes what has arrived.
func (l *link) listen() error {
	acks := make(chan *nats.Msg, queued)
	if _, err := l.nc.ChanSubscribe(l.inbox+"*", acks); err != nil {
		close(l.Ended)
		return err
	}
	go func() {
		defer close(l.Ended)
		for open := true; open || len(acks) > 0; {
			select {
			case m := <-acks:
				l.passOn(m)
			case <-l.closed:
				// closed stays ready, so each turn takes one of the answers that are left.
				if open = false; len(acks) > 0 {
					l.passOn(<-acks)
				}
			}
		}
		if !l.dropped.Load() {
			l.p.config.Logger.Warn("lost the connection to NATS", "error", l.Lost())
		}
	}()
	return nil
}

// pass gives an answer to the call that waits for it. The lock is held meanwhile, so that a call that ends finds every
// answer either in its channel or among those that are owed. The channel has room for all answers of streams, so only
// what comes in addition is dropped.
func (l *link) pass(arrived arrival) {
	l.mu.Lock()
	c := l.calls[arrived.number]
	if c != nil {
		select {
		case c.acks <- arrived:
		default: // a stranger answers more than once
		}
	}
	l.mu.Unlock()
	if c == nil {
		l.late(arrived)
	}
}

// take begins a call. Its memory may be that of an earlier call, but its number is new. Calls of Publish and questions
// of Ping take one alike.
func (l *link) take() *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	var c *call
	if n := len(l.idle); n > 0 {
		c = l.idle[n-1]
		l.idle = l.idle[:n-1]
	} else {
		c = newCall(l, l.p.config.Stream)
	}
	l.made++
	c.number = l.made
	l.calls[c.number] = c
	return c
}

// give ends a call. Nothing arrives for it any more before its memory serves another one.
func (l *link) give(c *call) {
	l.mu.Lock()
	delete(l.calls, c.number)
	l.mu.Unlock()
	// The channel is emptied after the call has left the table, so that pass puts nothing more into it.
	for len(c.acks) > 0 { // these came after the call had decided to keep their messages
		l.late(<-c.acks)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = append(l.idle, c)
}

// failed handles the errors that the server reports for the connection as a whole. A publish that is not permitted is
// one of them, and gets no other answer. It names the subject but no message, so each call under way checks its own. A
// violation of JetStream's API concerns the questions about streams: without their answers, the publisher only knows
// less to name in its answers.
func (l *link) failed(err error) {
	subject, ok := violated(err)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		select {
		case c.acks <- arrival{number: c.number, denied: subject}:
		default: // several calls publish to hundreds of such subjects
		}
	}
}

// violated returns the subject that the server's error does not permit. The protocol has no field for the subject; the
// text quotes it. If a server words it otherwise, the messages get no answer and are ambiguous when the call ends.
func violated(err error) (subject string, ok bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return "", false
	}
	text := err.Error()
	start := strings.IndexByte(text, '"')
	if start < 0 {
		return "", false
	}
	quoted, err := strconv.QuotedPrefix(text[start:])
	if err != nil {
		return "", false
	}
	subject, err = strconv.Unquote(quoted)
	return subject, err == nil
}

// Lost implements [connect.Link]. The server's reason is better than that of the socket: an expired login is named
// there, and a broken pipe only follows from it.
func (l *link) Lost() error {
	err := l.nc.LastError() // the server's reason, if it gave one
	if failed := l.conn.Failure(); failed != nil && (err == nil || connect.Ended(err) || connect.TimedOut(err)) {
		err = failed
	}
	if err == nil {
		err = nats.ErrConnectionClosed
	}
	return publisher.UnavailableError(publisher.ScopeDestination, "connection lost",
		"the connection to NATS server %s has ended: %w", l.server.address, err)
}

// Greet implements [connect.Link]. The answer to a ping of nats.go (PONG) comes from the server's own reading of the
// connection, whatever JetStream does.
func (l *link) Greet(ctx context.Context) (asked bool) {
	_ = l.nc.FlushWithContext(ctx) // what comes is noticed
	return true
}

// Away implements [connect.Link].
func (l *link) Away() error {
	if l.Silent() {
		return publisher.UnavailableError(publisher.ScopeDestination, "no answer",
			"NATS server %s sends nothing any more: see whether the server or its host is frozen or overloaded, and "+
				"check the network", l.server.address)
	}
	return nil
}

// Close implements [connect.Link]. When it returns, every answer that was read is with its call.
func (l *link) Close() {
	l.dropped.Store(true)
	_ = l.conn.Close()
	l.nc.Close()
	<-l.Ended
}
