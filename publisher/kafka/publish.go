package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

// A call is one Publish under way and holds what to do with each message. Calls are pooled.
type call struct {
	publisher *Publisher
	messages  []publisher.Message
	errs      []error
	now       time.Time
	deadline  time.Time      // zero if there is none
	stop      publisher.Stop // nothing more is sent after it is closed
	producer  int64
	keys      keyorder.Order

	late     []late // what routing found wrong, in the order of the messages
	stopped  []bool // by key group: the key is in late, so its later messages are not sent
	failed   []bool // by key group: a message was not accepted
	troubled bool

	topics []use
	byName map[string]int32 // index in topics
	names  []string

	waves []int32  // by message: the wave in which it is sent, or notSent
	route []target // by message
	last  []target // by key group: the target of its last message
	count int32    // number of waves

	jobs  []job
	ready []*job

	waiting  []*job        // jobs that wait for their turn
	turns    chan *job     // waiting jobs that have got their turn
	underway []*group      // groups that each have a request under way
	back     chan *request // requests that have come back
	returned bool          // a request of the wave has come back
}

// A late answer is for a message that cannot be sent. It is given at the end, if all earlier messages of its key were
// accepted. Otherwise the relay would fail the row while an older one still waits.
type late struct {
	message int32
	err     error
}

// Publish sends the messages: one batch for each partition, and one request for each broker. See [publisher.Publisher].
func (p *Publisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	errs := make([]error, len(messages))
	fill := func(err error) []error {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	if p.life.ended() {
		return fill(publisher.ErrClosed)
	}
	fill(publisher.ErrNotAttempted)
	if len(messages) == 0 || ctx.Err() != nil {
		return errs
	}
	c, ok := p.calls.Get().(*call)
	if !ok {
		c = &call{publisher: p, byName: map[string]int32{}}
	}
	c.reset(messages, errs)
	c.deadline, _ = ctx.Deadline()
	c.stop = publisher.StopOf(ctx)
	c.run(ctx)
	c.settle()
	c.reset(nil, nil)
	p.calls.Put(c)
	return errs
}

// run answers all messages that can be answered before ctx ends. The rest stays not attempted.
func (c *call) run(ctx context.Context) {
	c.keys.Link(c.messages, c.publisher.config.Partitioner)
	if !c.findTopics(ctx) {
		return
	}
	c.findLimits(ctx)
	c.routeAll()
	if c.count == 0 {
		return
	}
	id, err := c.publisher.producerID(ctx)
	if err != nil {
		c.failAll(ctx, err)
		return
	}
	c.producer = id
	for wave := range c.count {
		c.send(ctx, c.gather(wave))
	}
}

// blocked reports whether an earlier message of the key was not accepted.
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
	c.troubled = true
}

// failAll answers every message that has a partition and is the first of its key.
func (c *call) failAll(ctx context.Context, err error) {
	if over(ctx) {
		return
	}
	err = c.publisher.unreached(err)
	for i := range c.messages {
		if c.waves[i] != notSent && !c.blocked(int32(i)) {
			c.fail(int32(i), err)
		}
	}
}

// settle gives the late answers and enforces the prefix rule. A message found in a batch of an earlier call may have
// been answered before an older message of its key failed.
func (c *call) settle() {
	clear(c.failed)
	for i := range c.messages {
		group := c.keys.First[i]
		if len(c.late) > 0 && c.late[0].message == int32(i) {
			if group == keyorder.None || !c.failed[group] {
				c.errs[i] = c.late[0].err
			}
			c.late = c.late[1:]
		}
		switch {
		case c.errs[i] == nil && group != keyorder.None && c.failed[group]:
			c.errs[i] = publisher.ErrNotAttempted
		case c.errs[i] == nil:
			c.publisher.recall.reported(c.messages[i].ID)
		case group != keyorder.None:
			c.failed[group] = true
		}
	}
}

// reset prepares the call for these messages and clears the previous ones.
func (c *call) reset(messages []publisher.Message, errs []error) {
	c.messages, c.errs, c.now, c.count, c.stop = messages, errs, time.Now(), 0, nil
	c.troubled = false
	n := len(messages)
	clear(c.late)
	c.late = c.late[:0]
	c.failed = append(c.failed[:0], make([]bool, n)...)
	c.stopped = append(c.stopped[:0], make([]bool, n)...)
	c.route = slices.Grow(c.route[:0], n)[:n]
	c.waves = slices.Grow(c.waves[:0], n)[:n]
	c.last = slices.Grow(c.last[:0], n)[:n]
	for i := range n {
		c.waves[i] = notSent
		c.last[i] = target{use: -1}
	}
	for i := range c.topics {
		c.topics[i].topic, c.topics[i].err = nil, nil
	}
	c.topics = c.topics[:0]
	clear(c.names)
	c.names = c.names[:0]
	clear(c.byName)
}

// unreached returns the answer after a request for metadata or a producer id has failed.
func (p *Publisher) unreached(err error) error {
	if p.life.ended() {
		return publisher.ErrClosed
	}
	return unavailable(err)
}
