package nats

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// strays is the room for further answers, which come late.
const strays = 64

// A lane is an inbox for the answers to one call at a time, with memory that calls reuse. The library's read loop puts
// answers directly into acks, and the calling goroutine takes them out.
type lane struct {
	link   *link
	sub    *nats.Subscription
	prefix string // prefix of the reply subjects, followed by the call's number and the message's index
	acks   chan *nats.Msg
	calls  uint64

	patience *time.Timer // timer of a call that waits for answers

	met    map[string]struct{} // streams that have answered, and are known or were asked for
	warned chan struct{}       // signals that a subject was added to denied
	denied map[string]struct{} // subjects to which this client may not publish; guarded by link.mu

	batch  batch
	run    run
	parked map[int32][]*kept // kept messages of the last call, by the message whose answer is theirs
	wire   wire
	reply  []byte
	good   string // last subject that was found legal
	last   error  // last error of the server that was handled, in core mode
}

func newLane(l *link, prefix string) *lane {
	patience := time.NewTimer(time.Hour)
	patience.Stop()
	return &lane{
		patience: patience,
		link:     l,
		prefix:   prefix,
		acks:     make(chan *nats.Msg, window+strays),
		warned:   make(chan struct{}, 1),
		met:      map[string]struct{}{},
		denied:   map[string]struct{}{},
		wire:     wire{header: nats.Header{}, stream: l.expect},
	}
}

// errGone means that the connection has ended and the message was not sent.
var errGone = errors.New("connection closed")

// send hands a message to the connection. Any error except errGone is the message's answer. A write that failed half
// way returns no error: the message may have been sent, and the link ends at once.
func (l *lane) send(i int32, m *publisher.Message) error {
	if m.Topic != l.good {
		if err := checkSubject(m.Topic, l.link.inboxes); err != nil {
			return err
		}
		l.good = m.Topic
	}
	message, err := l.wire.encode(m, l.address(i))
	if err != nil {
		return err
	}
	return l.post(message)
}

// post is send for a message that is already encoded.
func (l *lane) post(message *nats.Msg) error {
	switch err := l.link.nc.PublishMsg(message); {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrConnectionClosed):
		return errGone
	case errors.Is(err, nats.ErrMaxPayload):
		return &tooLarge{int64(message.Size() - len(message.Subject) - len(message.Reply)), l.link.nc.MaxPayload()}
	case errors.Is(err, nats.ErrHeadersNotSupported):
		return publisher.UnavailableError(publisher.ScopeDestination, "no headers",
			"NATS server %s has headers turned off: remove no_header_support from its configuration", l.link.server.address)
	case errors.Is(err, nats.ErrBadHeaderMsg), errors.Is(err, nats.ErrBadSubject):
		return publisher.PermanentError("illegal message", "the NATS client refuses the message: %w", err)
	default:
		l.link.conn.fail(err) // a write has failed before
		return nil
	}
}

// address returns the reply subject for a message of the current call. The call's number distinguishes late answers,
// for example if two streams of different accounts acknowledge one message.
func (l *lane) address(i int32) string {
	if l.link.core {
		return ""
	}
	l.reply = append(l.reply[:0], l.prefix...)
	l.reply = strconv.AppendUint(l.reply, l.calls, 36)
	l.reply = append(l.reply, '-')
	l.reply = strconv.AppendInt(l.reply, int64(i), 36)
	return string(l.reply)
}

// index returns the message of the current call to which a reply subject belongs.
func (l *lane) index(subject string) (int32, bool) {
	token, ok := strings.CutPrefix(subject, l.prefix)
	if !ok {
		return 0, false
	}
	call, index, ok := strings.Cut(token, "-")
	if !ok {
		return 0, false
	}
	if n, err := strconv.ParseUint(call, 36, 64); err != nil || n != l.calls {
		return 0, false
	}
	i, err := strconv.ParseInt(index, 36, 32)
	return int32(i), err == nil && i >= 0
}
