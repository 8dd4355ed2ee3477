package nats

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

// strays is the room for what comes besides the answers: the subjects that are not permitted to other calls, late
// answers, and those of something that is not a stream. Without room they are dropped, and never keep the library's
// reading waiting. A message has one acknowledgement, but a service that is subscribed to the subject may answer as
// well, any number of times.
const strays = 3 * window

// A call is the state of one call of Publish, owned by the goroutine that called. Its memory serves later calls. See
// the package's comment for the states of a message. Other goroutines reach it through acks only.
type call struct {
	link   *link
	number uint64 // in the reply subjects of its messages; calls of a link never share one

	messages []publisher.Message
	errs     []error
	state    []state
	keys     keyorder.Order
	ready    []int32        // messages that may be sent, the next one last: all earlier ones of their keys are accepted
	waiting  int            // number of messages sent and not answered
	copied   map[int32]bool // messages that were sent by an earlier call too, whose outcome is unknown
	stop     publisher.Stop // nothing more is sent after it is closed
	until    time.Time      // how long the answers are waited for, in this call and others
	limit    int64          // what the server takes at most, if this call has asked it; otherwise 0

	acks chan arrival
	met  map[string]bool // streams that have answered and are known

	stalls stalls
	wire   wire
	reply  []byte
}

// An arrival is an answer to a message of a call, or a subject to which the server does not let this client publish.
// The number shows whether it is for this call or for the former user of the same memory.
type arrival struct {
	number  uint64
	message int32
	answer  *nats.Msg // nil for a subject
	denied  string
}

// A state says what is known of a message. At most one message of a key is sent, and those after it wait: that is the
// order of the key, whatever the order of the answers.
type state uint8

const (
	waits state = iota // is ready, or an earlier message of its key is not accepted, or not yet
	sent               // sent and not answered
	done               // has its answer
)

// newCall returns a call of the link. Its channel has room for the answers to a full window, so that none of them is
// dropped.
func newCall(l *link, stream string) *call {
	c := &call{
		link: l,
		acks: make(chan arrival, window+strays),
		met:  map[string]bool{}, copied: map[int32]bool{},
		wire: wire{header: nats.Header{}, stream: stream},
	}
	c.stalls.timer = time.NewTimer(time.Hour)
	c.stalls.timer.Stop()
	return c
}

// begin prepares the call for these messages. Messages without a key are ready at once, and so is the first one of each
// key.
func (c *call) begin(messages []publisher.Message, errs []error) {
	c.messages, c.errs = messages, errs
	c.state, c.ready = append(c.state[:0], make([]state, len(messages))...), c.ready[:0]
	c.waiting, c.limit = 0, 0
	clear(c.copied)
	c.stalls.clear()
	c.keys.Link(messages)
	for i := len(messages) - 1; i >= 0; i-- {
		if errs[i] = publisher.ErrNotAttempted; !c.keys.Waits(i) {
			c.ready = append(c.ready, int32(i))
		}
	}
}

// turn returns the next message that may be sent. Messages that follow an accepted one go before those that have not
// had their turn: a key with many messages needs the most round trips, and decides how long the call takes. Of these,
// the one that became ready last goes first.
func (c *call) turn() (int32, bool) {
	n := len(c.ready) - 1
	if n < 0 {
		return 0, false
	}
	i := c.ready[n]
	c.ready = c.ready[:n]
	return i, true
}

// settles gives a message its answer. If it was accepted, the next message of its key may go. After one that was not
// accepted, the others of its key stay as they are, and come back as not attempted.
func (c *call) settles(i int32, err error) {
	if c.state[i] == sent {
		c.waiting--
	}
	c.state[i], c.errs[i] = done, err
	if n := c.keys.Next[i]; n != keyorder.None && accepted(err) {
		c.ready = append(c.ready, n)
	}
}

// finish answers everything that has no answer yet. unanswered is why messages that were sent have none. It drops the
// references to the caller's memory, since the call's own memory serves later calls.
//
// The stream may report a message that was sent again as a duplicate. That is the acceptance of the earlier try, and
// not a sign of another row with the same id.
func (c *call) finish(unanswered, unsent error) {
	for i := range c.state {
		if c.state[i] == sent {
			c.errs[i] = c.silence(c.messages[i].Topic, unanswered)
		}
	}
	for _, i := range c.ready {
		c.errs[i] = unsent
	}
	for i := range c.copied {
		if _, duplicate := errors.AsType[*publisher.Duplicate](c.errs[i]); duplicate {
			c.errs[i] = nil // of the earlier try
		}
		c.errs[i] = publisher.Republish(c.errs[i])
	}
	c.messages, c.errs, c.stop = nil, nil, nil
	c.wire.forget()
}

// errGone means that the connection has ended and the message was not sent.
var errGone = errors.New("connection closed")

// send hands a message to the connection. Any error except errGone is the message's answer. A write that failed half
// way returns no error: the message may have been sent, and the link ends at once.
//
// It does not block, except in tooLarge: nats.go writes to conn, which queues. nats.go checks less than encode and
// checkSubject do, and its own errors are answers only where it knows something that this package does not, such as the
// server's greeting.
func (c *call) send(ctx context.Context, i int32, m *publisher.Message) error {
	if err := checkSubject(m.Topic, c.link.inboxes); err != nil {
		return err
	}
	message, err := c.wire.encode(m, c.address(i))
	if err != nil {
		return err
	}
	switch err := c.link.nc.PublishMsg(message); {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrConnectionClosed):
		return errGone
	case errors.Is(err, nats.ErrMaxPayload):
		return c.tooLarge(ctx, int64(message.Size()-len(message.Subject)-len(message.Reply)))
	case errors.Is(err, nats.ErrHeadersNotSupported):
		return publisher.UnavailableError(publisher.ScopeDestination, "no headers",
			"NATS server %s has headers turned off: remove no_header_support from its configuration",
			c.link.server.address)
	case errors.Is(err, nats.ErrBadHeaderMsg), errors.Is(err, nats.ErrBadSubject):
		return publisher.PermanentError("illegal message", "the NATS client refuses the message: %w", err)
	default:
		c.link.conn.Fail(err)
		return nil
	}
}

// address returns the reply subject for a message of the call. The call's number distinguishes late answers, for
// example if two streams of different accounts acknowledge one message. All reply subjects of a link are below its
// inbox, for which it has one subscription; one for each call would have to be announced to the server each time.
func (c *call) address(i int32) string {
	c.reply = append(c.reply[:0], c.link.inbox...)
	c.reply = strconv.AppendUint(c.reply, c.number, 36)
	c.reply = append(c.reply, '-')
	c.reply = strconv.AppendInt(c.reply, int64(i), 36)
	return string(c.reply)
}

// passOn gives an answer to the call whose reply subject it has. The subject may be anything below the inbox that
// another client writes, so what does not parse is ignored.
func (l *link) passOn(m *nats.Msg) {
	call, index, ok := strings.Cut(strings.TrimPrefix(m.Subject, l.inbox), "-")
	number, err := strconv.ParseUint(call, 36, 64)
	i, err2 := strconv.ParseInt(index, 36, 32)
	if ok && err == nil && err2 == nil && i >= 0 {
		l.pass(arrival{number: number, message: int32(i), answer: m})
	}
}
