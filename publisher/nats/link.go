package nats

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher/internal/network"
)

// A link is one connection to one server, from its greeting to its end. It never reconnects.
type link struct {
	nc             *nats.Conn
	conn           *conn
	server         server
	inboxes        string        // prefix of reply subjects, including those of other clients
	inbox          string        // prefix of all reply subjects of this link
	api            string        // prefix of the subjects for questions to JetStream
	core           bool          // without JetStream
	expect         string        // the only stream that may take messages, or ""
	hot, hotSynced int           // see the constants
	doubted        chan struct{} // holds a request to check whether the server is there
	closed         chan struct{} // closed when the connection has ended and everything that was read is in the lanes
	unused         chan struct{} // closed when another link has taken its place and no call uses it any more
	auth           Auth          // credentials with which it has logged in
	names          setting.Names

	streams  streams
	patience time.Duration // see firstPatience
	timeout  time.Duration // see Config.Timeout
	keeper   *keeper
	limits   chan<- limitQuestion
	silence  atomic.Pointer[silence] // nil while the server answers, as far as is known

	mu    sync.Mutex
	busy  map[*lane]struct{} // lanes that serve a call
	idle  []*lane
	made  uint64 // number of lanes ever made
	blind bool   // the account's information may not be requested
	users int    // number of calls that use it, and of lanes that wait for answers after their call
	over  bool   // another link has taken its place
}

// take returns a lane for one call.
func (l *link) take() (*lane, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.idle); n > 0 {
		lane := l.idle[n-1]
		l.idle = l.idle[:n-1]
		l.busy[lane] = struct{}{}
		return lane, nil
	}
	if l.made == 0 && !l.core {
		if _, err := l.nc.Subscribe(l.lookups()+"*", l.learn); err != nil {
			return nil, l.lost()
		}
	}
	l.made++
	lane := newLane(l, l.inbox+strconv.FormatUint(l.made, 36)+".")
	if l.core {
		l.busy[lane] = struct{}{}
		return lane, nil
	}
	var err error
	if lane.sub, err = l.nc.ChanSubscribe(lane.prefix+"*", lane.acks); err != nil {
		return nil, l.lost()
	}
	l.busy[lane] = struct{}{}
	return lane, nil
}

// give takes a lane back. A lane that may still receive answers of its last call is not used again. If messages of that
// call are kept, it waits for their answers first.
func (l *link) give(lane *lane, settled bool) {
	l.mu.Lock()
	delete(l.busy, lane)
	clear(lane.denied)
	lingers := len(lane.parked) > 0
	if lingers {
		l.users++
	} else if settled {
		l.idle = append(l.idle, lane)
	}
	l.mu.Unlock()
	switch {
	case lingers:
		go lane.linger()
	case !settled:
		_ = lane.sub.Unsubscribe() // fails only if the connection has ended
	}
}

// failed handles the errors that the server reports for the connection as a whole. A publish that is not permitted is
// one of them, and gets no other answer.
func (l *link) failed(err error) {
	subject, ok := violated(err)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for lane := range l.busy {
		lane.denied[subject] = struct{}{}
		select {
		case lane.warned <- struct{}{}:
		default: // the call has been warned and has not checked yet
		}
	}
}

// violated returns the subject that the server's error does not permit. The protocol has no field for the subject; the
// text quotes it.
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

// denied returns the subjects that the server has refused to the lane's call since the last call of denied.
func (l *link) denied(lane *lane) map[string]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	subjects := lane.denied
	lane.denied = map[string]struct{}{}
	return subjects
}

// lost returns the answer for messages that cannot be sent because the connection has ended.
func (l *link) lost() error {
	err := l.nc.LastError() // the server's reason, if it gave one
	if failed := l.conn.failure(); failed != nil && (err == nil || network.Ended(err) || network.TimedOut(err)) {
		err = failed
	}
	return connectionLost(l.server, err)
}

// close ends the connection at once. The channel closed is closed soon after.
func (l *link) close() {
	_ = l.conn.Close()
	l.nc.Close()
}

// drop closes a link that no call uses, and waits for its end.
func (l *link) drop() {
	l.close()
	<-l.closed
}
