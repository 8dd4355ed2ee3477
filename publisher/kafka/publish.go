package kafka

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A call is one Publish under way: what to do with each message. Calls are pooled.
type call struct {
	publisher *Publisher
	messages  []publisher.Message
	errs      []error
	now       time.Time
	producer  int64
	keys      keyGroups

	late     []late // what routing found wrong, in order of messages
	stopped  []bool // by key group: is in late, so its later messages are not sent
	failed   []bool // by key group: a message was not accepted
	troubled atomic.Bool

	topics []use
	byName map[string]int32 // index in topics
	names  []string

	waves []int32  // by message: the wave it is sent in, or notSent
	route []target // by message
	last  []target // by key group: where its last message goes
	count int32    // of waves

	jobs  []job
	ready []*job
}

// A use is one topic in a call.
type use struct {
	topic  *topic
	err    error
	sticky int32   // the partition for keyless messages in this call
	jobs   []int32 // by partition: index in call.jobs + 1
}

// A late answer is for a message that cannot be sent. It is given at the end, if all before it of its
// key were accepted: else the relay would fail the row while an older one still waits.
type late struct {
	message int32
	err     error
}

// A target is where a message goes.
type target struct{ use, partition, wave int32 }

const notSent = -1

// Publish sends the messages, those for one partition in one batch, those for one broker in one
// request; see [publisher.Publisher].
func (p *Publisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	errs := make([]error, len(messages))
	fill := func(err error) []error {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	if p.open.closed() {
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
	c.run(ctx)
	c.settle()
	c.reset(nil, nil)
	p.calls.Put(c)
	return errs
}

// run answers all messages that can be answered before ctx ends. The rest stays not attempted.
func (c *call) run(ctx context.Context) {
	c.keys.build(c.messages)
	if !c.findTopics(ctx) {
		return
	}
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

// findTopics learns what is needed of the topics. It reports false when it could not, and then all
// messages are answered.
func (c *call) findTopics(ctx context.Context) bool {
	var previous string
	for i := range c.messages {
		name := c.messages[i].Topic
		if i > 0 && name == previous || !legalTopic(name) {
			continue
		}
		previous = name
		if _, ok := c.byName[name]; ok {
			continue
		}
		known, fresh := c.publisher.cluster.cached(name, c.now)
		if !fresh {
			c.names = append(c.names, name)
		}
		c.byName[name] = int32(len(c.topics))
		c.topics = append(c.topics, use{topic: known})
	}
	if len(c.names) > 0 {
		refused, err := c.publisher.cluster.refresh(ctx, c.names)
		if err != nil && ctx.Err() != nil {
			return false
		}
		for _, name := range c.names {
			u := &c.topics[c.byName[name]]
			if known, _ := c.publisher.cluster.cached(name, c.now); known != nil {
				u.topic = known // not fresh perhaps, but then sending shows what it is worth
			} else if err != nil {
				u.err = c.publisher.unreached(err)
			} else if u.err = refused[name]; u.err == nil {
				u.err = publisher.UnavailableError(publisher.ScopeTopic, "topic unavailable", "topic %q: the broker left it out of its answer", name)
			}
		}
	}
	for i := range c.topics {
		if u := &c.topics[i]; u.err == nil {
			u.prepare()
		}
	}
	return true
}

// prepare chooses the call's partition for keyless messages: the next one that has a leader.
func (u *use) prepare() {
	t := u.topic
	u.jobs = append(u.jobs[:0], make([]int32, len(t.partitions))...)
	turn := t.spread.Add(1) - 1
	if u.sticky = int32(turn % uint32(len(t.partitions))); len(t.available) > 0 {
		u.sticky = t.available[turn%uint32(len(t.available))]
	}
}

// routeAll checks the messages in order and gives each its partition and its wave. A key whose
// messages change partition, because they change topic, has the later run in a later wave.
func (c *call) routeAll() {
	for i := range c.messages {
		i := int32(i)
		group := c.keys.of[i]
		if group != keyless && c.stopped[group] {
			continue
		}
		to, err := c.target(i)
		if err != nil {
			c.late = append(c.late, late{i, err})
			if group != keyless {
				c.stopped[group] = true
			}
			continue
		}
		if to.use < 0 {
			c.errs[i] = nil // accepted in an earlier call, which could not tell
			continue
		}
		if group != keyless {
			before := c.last[group]
			to.wave = before.wave
			if before.use >= 0 && (before.use != to.use || before.partition != to.partition) {
				to.wave++
			}
			c.last[group] = to
		}
		c.route[i], c.waves[i] = to, to.wave
		c.count = max(c.count, to.wave+1)
	}
}

// target returns the message's partition, or why it has none. A use of -1 is a message that is in the
// log already.
func (c *call) target(i int32) (target, error) {
	m := &c.messages[i]
	if !legalTopic(m.Topic) {
		return target{}, publisher.PermanentError("illegal topic", "topic %.300q: Kafka's names have 1 to 249 characters of a-z A-Z 0-9 . _ -", m.Topic)
	}
	if err := m.CheckHeaders(); err != nil {
		return target{}, err
	}
	if bodySize(m) > maxRecordBytes {
		return target{}, publisher.PermanentError("message too large", "a record of %d bytes is larger than any Kafka request", bodySize(m))
	}
	index := c.byName[m.Topic]
	u := &c.topics[index]
	if u.err != nil {
		return target{}, u.err
	}
	to := target{use: index}
	if b, accepted := c.publisher.recall.find(m.Topic, m.ID, c.now); accepted {
		return target{use: -1}, nil
	} else if b != nil && int(b.partition.index) < len(u.topic.partitions) {
		to.partition = b.partition.index
	} else if m.Key != nil {
		to.partition = partitionOf(c.keys.hashes[i], len(u.topic.partitions))
	} else {
		to.partition = u.sticky
	}
	if u.topic.leaders[to.partition] == nil {
		return target{}, leaderless(m.Topic, to.partition)
	}
	return to, nil
}

// gather makes the jobs of one wave.
func (c *call) gather(wave int32) []*job {
	c.jobs = c.jobs[:0]
	for i := range c.messages {
		if c.waves[i] != wave || c.blocked(int32(i)) {
			continue
		}
		to := c.route[i]
		u := &c.topics[to.use]
		if u.jobs[to.partition] == 0 {
			c.addJob(u, to.partition)
		}
		j := &c.jobs[u.jobs[to.partition]-1]
		j.queue = append(j.queue, int32(i))
	}
	c.ready = c.ready[:0]
	for i := range c.jobs {
		c.ready = append(c.ready, &c.jobs[i])
	}
	for i := range c.topics {
		clear(c.topics[i].jobs)
	}
	return c.ready
}

// addJob appends a job for the partition, with the memory of one of an earlier call.
func (c *call) addJob(u *use, partition int32) {
	n := len(c.jobs)
	if n < cap(c.jobs) {
		c.jobs = c.jobs[:n+1]
	} else {
		c.jobs = append(c.jobs, job{})
	}
	c.jobs[n] = job{call: c, partition: u.topic.partitions[partition], leader: u.topic.leaders[partition],
		queue: c.jobs[n].queue[:0], ends: c.jobs[n].ends[:0]}
	u.jobs[partition] = int32(n) + 1
}

// blocked reports whether an earlier message of the key was not accepted.
func (c *call) blocked(i int32) bool {
	group := c.keys.of[i]
	return group != keyless && c.failed[group]
}

// fail answers one message and blocks its key.
func (c *call) fail(i int32, err error) {
	c.errs[i] = err
	if group := c.keys.of[i]; group != keyless {
		c.failed[group] = true
	}
	c.troubled.Store(true)
}

// failAll answers every message that has a partition and is first of its key.
func (c *call) failAll(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	err = c.publisher.unreached(err)
	for i := range c.messages {
		if c.waves[i] != notSent && !c.blocked(int32(i)) {
			c.fail(int32(i), err)
		}
	}
}

// settle gives the late answers and holds all to the prefix rule: messages found in an earlier call's
// batch may have got theirs before an older one of their key failed.
func (c *call) settle() {
	clear(c.failed)
	for i := range c.messages {
		group := c.keys.of[i]
		if len(c.late) > 0 && c.late[0].message == int32(i) {
			if group == keyless || !c.failed[group] {
				c.errs[i] = c.late[0].err
			}
			c.late = c.late[1:]
		}
		switch {
		case c.errs[i] == nil && group != keyless && c.failed[group]:
			c.errs[i] = publisher.ErrNotAttempted
		case c.errs[i] == nil:
			c.publisher.recall.reported(c.messages[i].ID)
		case group != keyless:
			c.failed[group] = true
		}
	}
}

// reset readies the call for these messages, and forgets those before.
func (c *call) reset(messages []publisher.Message, errs []error) {
	c.messages, c.errs, c.now, c.count = messages, errs, time.Now(), 0
	c.troubled.Store(false)
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

// legalTopic is the brokers' own rule.
func legalTopic(name string) bool {
	if len(name) == 0 || len(name) > 249 || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		switch b := name[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '.', b == '_', b == '-':
		default:
			return false
		}
	}
	return true
}

// unreached is the answer after a request for metadata or a producer id failed.
func (p *Publisher) unreached(err error) error {
	if p.open.closed() {
		return publisher.ErrClosed
	}
	return unavailable(err)
}
