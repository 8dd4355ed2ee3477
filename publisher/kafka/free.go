package kafka

import (
	"errors"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

// A message is free if neither a key nor a header of the row chooses its partition. It neither waits for a partition in
// trouble nor tests one, as long as another partition of its topic takes messages.

const (
	// avoidance is how long free messages avoid a partition after a failure, before one of them tries it. If messages
	// with a key are sent to the partition, one of them usually ends the avoidance.
	avoidance = 5 * time.Second
	// loyalty is how long a free message with an unknown outcome stays with its partition in trouble. Usually another
	// broker leads the partition by then and recognises the batch. After that time the message is sent elsewhere,
	// perhaps a second time. It is no shorter than the time limit of the call.
	loyalty = 10 * time.Second
)

// free reports whether the message may go to a different partition when it is sent again.
func (c *call) free(i int32) bool {
	if c.keys.First[i] != keyorder.None {
		return false
	}
	_, given, _ := chosen(&c.messages[i], c.publisher.config.PartitionHeader)
	return !given
}

// prepare chooses the call's partition for free messages: the next one that takes messages, as far as is known.
func (u *use) prepare(now time.Time) {
	t := u.topic
	u.jobs = append(u.jobs[:0], make([]int32, len(t.partitions))...)
	u.tried = false
	turn := t.spread.Add(1) - 1
	if u.sticky = int32(turn % uint32(len(t.partitions))); len(t.available) > 0 {
		u.sticky = t.available[turn%uint32(len(t.available))]
	}
	for n := range uint32(len(t.available)) {
		if at := t.available[(turn+n)%uint32(len(t.available))]; t.takes(at, now) {
			u.sticky = at
			return
		}
	}
	u.tried = true // all available partitions have trouble, so the chosen one is already a try
}

// forFree returns the partition of a free message. The first free message of the call may get a partition that the
// others avoid.
func (u *use) forFree(now time.Time) int32 {
	if u.tried {
		return u.sticky
	}
	u.tried = true
	for i, p := range u.topic.partitions {
		leader, due := u.topic.leaders[i], p.avoided.Load()
		if leader == nil || due > now.UnixNano() || u.topic.takes(int32(i), now) || !leader.mayTry(now) {
			continue
		}
		if p.avoided.CompareAndSwap(due, now.Add(avoidance).UnixNano()) {
			return int32(i)
		}
	}
	return u.sticky
}

// takes reports whether free messages may be sent to the partition, as far as is known.
func (t *topic) takes(index int32, now time.Time) bool {
	leader := t.leaders[index]
	return leader != nil && t.partitions[index].avoided.Load() == 0 && leader.takes(now)
}

// takes reports whether the broker can be reached, answers, and does not request a pause, as far as is known.
func (b *broker) takes(now time.Time) bool {
	s := b.standing()
	return s.failed == nil && s.silences == 0 && s.paused.Sub(now) <= maxThrottle
}

// mayTry reports whether a request may be sent to a broker that free messages avoid. A broker that could not be reached
// is dialled in the background.
func (b *broker) mayTry(now time.Time) bool {
	s := b.standing()
	if s.failed != nil {
		b.poke()
	}
	return s.failed == nil && !s.asked && !now.Before(s.until) && s.paused.Sub(now) <= maxThrottle
}

// leaves reports whether the message, whose outcome in an earlier call is unknown, is now sent to a different
// partition.
func (c *call) leaves(i int32, b *batch, u *use) bool {
	loyal := loyalty
	if !c.deadline.IsZero() {
		loyal = max(loyal, c.deadline.Sub(c.now))
	}
	return c.publisher.recall.age(b, c.now) > loyal && c.free(i) &&
		!u.topic.takes(b.partition.index, c.now) && u.topic.takes(u.sticky, c.now)
}

// An outcome holds the answers for messages of one partition.
type outcome struct {
	bound error // answer for messages bound to the partition, and for all messages if free is nil
	free  error
}

// outcome notes the trouble that err names. The answer for free messages names the topic as the trouble only if no
// partition of the topic takes messages.
func (c *call) outcome(p *partition, err error) outcome {
	e, ok := errors.AsType[*publisher.Error](err)
	if !ok || e.Fate.Kind != publisher.FatePartition && e.Fate.Kind != publisher.FateBroker {
		return outcome{bound: err}
	}
	p.avoided.Store(c.now.Add(avoidance).UnixNano())
	free := *e
	free.Scope, free.Fate = publisher.ScopeTopic, publisher.Fate{Kind: publisher.FateTopic, Name: p.topic}
	if known, _ := c.publisher.cluster.cached(p.topic, c.now); known != nil {
		for _, at := range known.available {
			if known.takes(at, c.now) {
				free.Scope, free.Fate = publisher.ScopeMessage, publisher.Fate{}
				break
			}
		}
	}
	return outcome{err, &free}
}

// of returns the answer for the message.
func (o outcome) of(c *call, i int32) error {
	if o.free != nil && c.free(i) {
		return o.free
	}
	return o.bound
}
