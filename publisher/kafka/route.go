package kafka

import (
	"context"
	"strings"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

// A use is one topic in a call. All free messages of a call share one partition, so that they form one batch; spread
// over all partitions, they would be many small ones.
type use struct {
	*topic
	sticky int32 // partition for free messages in this call
}

// A target is the destination of a message within the call.
type target struct {
	partition *partition // nil if the message is not sent
	leader    *broker
	wave      int32 // the wave in which the message is sent
	free      bool  // the message may go to another partition when it is sent again
	err       error // why it cannot be sent
}

// findTopics looks up the topics of the messages. It reports false if ctx has ended in the meantime. Most calls find
// all their topics in the cache and ask nothing. What cannot be had, a topic or the producer id, becomes the answer for
// the messages concerned, and the others go on.
func (c *call) findTopics(ctx context.Context) bool {
	cluster := c.publisher.cluster
	var names []string // those to ask for
	for i := range c.messages {
		name := c.messages[i].Topic
		if i > 0 && name == c.messages[i-1].Topic || checkTopic(name) != nil || c.topics[name] != nil {
			continue
		}
		known, fresh := cluster.cached(name, c.now)
		if !fresh {
			names = append(names, name)
		}
		c.topics[name] = &use{topic: known}
	}
	if len(names) > 0 {
		for name, learned := range cluster.refresh(ctx, names) {
			// What was known before is perhaps outdated, but sending will show that.
			if u := c.topics[name]; learned.name != "" || u.topic == nil {
				u.topic = learned
			}
		}
		if over(ctx) {
			return false
		}
	}
	// Nothing is sent without a producer id: a batch without one would be appended again after each lost answer. If the
	// cluster gives none, that is the answer for every topic.
	id, err := c.publisher.producerID(ctx)
	if err != nil && over(ctx) {
		return false
	}
	c.producer = id
	for _, u := range c.topics {
		if err != nil && u.err == nil {
			u.topic = &topic{err: unavailable(err)}
		}
		if u.err == nil {
			u.sticky = cluster.forFree(u.topic, c.now)
		}
	}
	return true
}

// routeAll checks the messages in order and gives each its partition and its wave. If messages of a key change
// partition, because they change topic, the later ones go in a later wave. Nothing of a key is sent after a message
// that cannot be sent.
func (c *call) routeAll() {
	for i := range c.messages {
		group := c.keys.First[i]
		keyed := group != keyorder.None
		if keyed && c.last[group].err != nil {
			continue
		}
		to := c.target(int32(i))
		// A message without a key has the group -1, whose entry 0 is not used: all cases that look at it are for keyed
		// messages.
		switch before := &c.last[max(group, 0)]; {
		case to.err != nil:
		case to.partition == nil:
			c.errs[i] = nil // accepted in an earlier call, which could not know that
			continue
		case keyed && before.partition != nil && before.partition != to.partition:
			to.wave = before.wave + 1
		case keyed:
			to.wave = before.wave
		}
		if c.route[i] = to; keyed {
			c.last[group] = to
		}
		if to.err == nil {
			c.count = max(c.count, to.wave+1)
		}
	}
}

// target returns the message's partition, or the reason why it has none. A message that may be in a batch of an earlier
// call goes to the partition of that batch, even if its topic has grown in the meantime: there the broker recognises
// it.
func (c *call) target(i int32) target {
	m := &c.messages[i]
	u := c.topics[m.Topic]
	if u == nil {
		return target{err: checkTopic(m.Topic)}
	}
	if err := m.CheckHeaders(); err != nil {
		return target{err: err}
	}
	if u.err != nil {
		return target{err: u.err}
	}
	at, given, err := chosen(m, c.publisher.config.PartitionHeader)
	if err != nil {
		return target{err: err}
	}
	b, accepted := c.kept(i)
	free := false
	switch count := len(u.leaders); {
	case accepted:
		return target{}
	case b != nil && int(b.partition.index) < count:
		at = b.partition.index
	case given && int(at) >= count:
		u.doubted.Store(true)
		return target{err: publisher.RefusedError("no such partition",
			"topic %q has %d partitions, but the header %q names partition %d: correct the row, or add partitions",
			m.Topic, count, c.publisher.config.PartitionHeader, at)}
	case given:
	case m.Key != nil:
		at = int32(c.publisher.config.Partitioner.Balance(kafkago.Message{Key: m.Key}, u.indexes...))
	default:
		at, free = u.sticky, true
	}
	to := target{partition: u.partitions[at], free: free}
	to.leader, to.err = u.leader(to.partition)
	return to
}

// gather builds the jobs of one wave. Messages whose key has failed in an earlier wave are left out. Each job has the
// messages of one partition, in their order in the call.
func (c *call) gather(wave int32) {
	c.jobs = c.jobs[:0]
	jobs := map[*partition]*job{}
	for i := range c.messages {
		to := &c.route[i]
		if to.partition == nil || to.err != nil || to.wave != wave || c.blocked(int32(i)) {
			continue
		}
		j := jobs[to.partition]
		if j == nil {
			j = &job{call: c, partition: to.partition, leader: to.leader, queue: make([]int32, 0, 32)}
			c.jobs, jobs[to.partition] = append(c.jobs, j), j
		}
		j.queue = append(j.queue, int32(i))
	}
}

// checkTopic returns the answer for messages whose topic is illegal by the brokers' own rule for names, nil if it is
// legal. The metadata may answer UNKNOWN_TOPIC_OR_PARTITION (3) for an illegal name, with which the row would wait for
// a topic that nobody can create.
func checkTopic(name string) error {
	const characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if name != "" && len(name) <= 249 && name != "." && name != ".." && strings.Trim(name, characters) == "" {
		return nil
	}
	return publisher.PermanentError("illegal topic",
		"topic %.300q: Kafka's names have 1 to 249 characters of a-z A-Z 0-9 . _ -", name)
}
