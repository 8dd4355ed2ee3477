package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

// A call is one Publish under way and holds what to do with each message. All its fields belong to the goroutine of
// Publish. Other goroutines reach it only through its events.
type call struct {
	publisher *Publisher
	messages  []publisher.Message
	errs      []error
	now       time.Time
	stop      publisher.Stop // nothing more is sent after it is closed
	producer  int64
	keys      keyorder.Order

	// Answers. A key group is named by the index of its first message.
	failed  []bool // by key group: a message was not accepted
	copied  []bool // by message: the broker may hold it once more, see publisher.Republish
	recalls bool   // messages of the call may be in a batch of an earlier call

	// Routing: where each message goes.
	topics map[string]*use
	route  []target // by message
	last   []target // by key group: the target of its last message
	count  int32    // number of waves

	// The present wave.
	jobs     []*job
	events   chan func() // what follows from what has ended: a wait for a turn, or a request
	pending  int         // number of events to come
	underway []*request  // requests under way
}

// Publish sends the messages: one batch for each partition, and one request for each broker. See [publisher.Publisher].
// It first forgets what earlier calls have kept for too long, and looks once whether anything is kept at all: nearly
// always nothing is, and then no message is looked up by its id. The call ends with ctx or with Close, whichever comes
// first.
func (p *Publisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	n := len(messages)
	if p.life.Over() {
		return slices.Repeat([]error{publisher.ErrClosed}, n)
	}
	errs := slices.Repeat([]error{publisher.ErrNotAttempted}, n)
	if n == 0 || ctx.Err() != nil {
		return errs
	}
	c := p.calls.Get().(*call)
	p.kept.Sweep()
	c.reset(messages, errs)
	c.stop, c.recalls = publisher.StopOf(ctx), p.kept.Any()
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(p.life.Ctx, cancel)() //nolint:contextcheck // Close ends every call
	defer cancel()
	c.keys.Link(messages)
	if c.findTopics(ctx) {
		c.routeAll()
		// There is one wave unless rows of a key go to several topics, or name different partitions in a header.
		for wave := range c.count {
			c.gather(wave)
			c.send(ctx)
		}
	}
	c.settle()
	// The tables go back to the pool, but must not keep the caller's messages and errors alive there.
	c.reset(nil, nil)
	p.calls.Put(c)
	return errs
}

// reset prepares the call for these messages, and forgets the previous ones. The tables of 1,000 messages take 150 kB,
// which cost a tenth of the publisher's processor time if they were allocated for each call.
func (c *call) reset(messages []publisher.Message, errs []error) {
	n := len(messages)
	c.messages, c.errs, c.now, c.count = messages, errs, time.Now(), 0
	c.failed, c.copied = zeroed(c.failed, n), zeroed(c.copied, n)
	c.route, c.last = zeroed(c.route, n), zeroed(c.last, n)
	clear(c.topics)
	clear(c.jobs)
}

// zeroed returns a slice with n zero values, in the memory of the given one if it is large enough. The first clear
// covers what the slice held before and may lie beyond n: it would otherwise keep errors and partitions alive.
func zeroed[T any](s []T, n int) []T {
	clear(s)
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// blocked reports whether an earlier message of the key was not accepted. Nothing of the key may be sent then, in any
// partition: the accepted messages of a key are a prefix of those given.
func (c *call) blocked(i int32) bool {
	group := c.keys.First[i]
	return group != keyorder.None && c.failed[group]
}

// fail answers one message and blocks its key.
func (c *call) fail(i int32, err error) {
	c.errs[i] = err
	if group := c.keys.First[i]; group != keyorder.None {
		c.failed[group] = true
	}
}

// settle gives the answers of routing, and enforces the prefix rule. A message that cannot be sent is answered only if
// all earlier messages of its key were accepted: otherwise the relay would fail the row while an older one still waits.
// A message found in a batch of an earlier call may have been answered before an older message of its key failed.
func (c *call) settle() {
	clear(c.failed)
	for i := range c.messages {
		group, err := c.keys.First[i], &c.errs[i]
		blocked := c.blocked(int32(i))
		if wrong := c.route[i].err; wrong != nil && !blocked {
			*err = wrong
		}
		*err = c.elsewhere(int32(i), *err)
		switch {
		// It was accepted, by an earlier call that has kept its batch, and its caller never learned that. It counts as
		// not attempted until the older message is accepted; it stays kept, and is then answered without being sent.
		case *err == nil && blocked:
			*err = publisher.ErrNotAttempted
		case *err == nil && c.recalls:
			c.publisher.kept.Told(keptID(&c.messages[i]))
		case *err == nil:
		case group != keyorder.None:
			c.failed[group] = true
		}
		if c.copied[i] {
			*err = publisher.Republish(*err)
		}
	}
}
