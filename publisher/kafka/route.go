package kafka

import (
	"context"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

// A use is one topic in a call.
type use struct {
	topic  *topic
	err    error
	sticky int32   // partition for free messages in this call
	tried  bool    // no further free message of this call is sent to a partition that the others avoid
	jobs   []int32 // by partition: index in call.jobs + 1
	limit  int     // largest batch that the topic takes, in bytes; 0 if not known
}

// A target is the destination of a message within the call.
type target struct{ use, partition, wave int32 }

const notSent = -1

// findTopics looks up the topics of the messages. It reports false if ctx has ended in the meantime.
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
		if err != nil && over(ctx) {
			return false
		}
		for _, name := range c.names {
			u := &c.topics[c.byName[name]]
			if known, _ := c.publisher.cluster.cached(name, c.now); known != nil {
				u.topic = known // perhaps outdated, but sending will show that
			} else if err != nil {
				u.err = c.publisher.unreached(err)
			} else if u.err = refused[name]; u.err == nil {
				u.err = publisher.UnavailableError(publisher.ScopeTopic, "topic unavailable",
					"topic %q: the broker left it out of its answer", name)
			}
		}
	}
	for i := range c.topics {
		if u := &c.topics[i]; u.err == nil {
			u.prepare(c.now)
		}
	}
	return true
}

// routeAll checks the messages in order and gives each its partition and its wave. If messages of a key change
// partition, because they change topic, the later ones go in a later wave.
func (c *call) routeAll() {
	for i := range c.messages {
		i := int32(i)
		group := c.keys.First[i]
		if group != keyorder.None && c.stopped[group] {
			continue
		}
		to, err := c.target(i)
		if err != nil {
			c.late = append(c.late, late{i, err})
			if group != keyorder.None {
				c.stopped[group] = true
			}
			continue
		}
		if to.use < 0 {
			c.errs[i] = nil // accepted in an earlier call, which could not know that
			continue
		}
		if group != keyorder.None {
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

// target returns the message's partition, or the reason why it has none. A use of -1 means that the message is already
// in the log.
func (c *call) target(i int32) (target, error) {
	m := &c.messages[i]
	if !legalTopic(m.Topic) {
		return target{}, publisher.PermanentError("illegal topic",
			"topic %.300q: Kafka's names have 1 to 249 characters of a-z A-Z 0-9 . _ -", m.Topic)
	}
	if err := m.CheckHeaders(); err != nil {
		return target{}, err
	}
	if c.publisher.config.Compression == 0 && bodySize(m) > maxRecordBytes {
		return target{}, publisher.PermanentError("message too large",
			"a record of %d bytes is larger than any Kafka request", bodySize(m))
	}
	index := c.byName[m.Topic]
	u := &c.topics[index]
	if u.err != nil {
		return target{}, u.err
	}
	if u.limit > 0 && bodySize(m) > u.limit {
		return target{}, publisher.PermanentError("message too large",
			"topic %q takes no record of %d bytes: its max.message.bytes is %d: raise it, or make the row smaller",
			m.Topic, bodySize(m), u.limit)
	}
	to := target{use: index}
	partition, given, err := chosen(m, c.publisher.config.PartitionHeader)
	if err != nil {
		return target{}, err
	}
	b, accepted := c.publisher.recall.find(m, c.now)
	switch count := len(u.topic.partitions); {
	case accepted:
		return target{use: -1}, nil
	case b != nil && int(b.partition.index) < count && !c.leaves(i, b, u):
		to.partition = b.partition.index
	case given && int(partition) >= count:
		return target{}, c.beyond(u.topic, partition)
	case given:
		to.partition = partition
	case m.Key != nil:
		to.partition = partitionOf(c.keys.Numbers[i], count)
	default:
		to.partition = u.forFree(c.now)
	}
	if u.topic.leaders[to.partition] == nil {
		p := u.topic.partitions[to.partition]
		return target{}, c.outcome(p, p.unavailable("no leader", "it has no leader")).of(c, i)
	}
	return to, nil
}

// beyond returns the answer for a message that names a partition that the topic does not have. The topic may have grown
// since it was asked for, and may still grow.
func (c *call) beyond(t *topic, partition int32) error {
	if c.publisher.cluster.doubt(t, doubtTTL, c.now) {
		return publisher.UnavailableError(publisher.ScopeMessage, "no such partition",
			"topic %q had no partition %d a while ago",
			t.name, partition)
	}
	return publisher.RefusedError("no such partition",
		"topic %q has %d partitions, but the header %q names partition %d: correct the row, or add partitions",
		t.name, len(t.partitions), c.publisher.config.PartitionHeader, partition)
}

// gather builds the jobs of one wave.
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

// addJob appends a job for the partition. It reuses the memory of a job of an earlier call.
func (c *call) addJob(u *use, partition int32) {
	n := len(c.jobs)
	if n < cap(c.jobs) {
		c.jobs = c.jobs[:n+1]
	} else {
		c.jobs = append(c.jobs, job{})
	}
	c.jobs[n] = job{
		call: c, partition: u.topic.partitions[partition], leader: u.topic.leaders[partition],
		queue: c.jobs[n].queue[:0], ends: c.jobs[n].ends[:0],
	}
	u.jobs[partition] = int32(n) + 1
}

// legalTopic implements the brokers' own rule for names.
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
