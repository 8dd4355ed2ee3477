package kafka

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A message is free if neither a key nor a header of the row chooses its partition. It does not wait for a partition in
// trouble as long as another partition of its topic takes messages. If its outcome is unknown, it stays with its
// partition: sent elsewhere, it might be there twice.

// avoidance is how long free messages avoid a partition after a failure. Then the next call tries it: at worst, the
// free messages of one call in five seconds come back and are sent elsewhere.
const avoidance = 5 * time.Second

// forFree returns the partition for the free messages of a call: any that takes messages, as far as is known. If none
// does, they are sent to any other, and its answer names the topic.
func (c *cluster) forFree(t *topic, now time.Time) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := rand.Perm(len(t.indexes))
	return int32(at[max(slices.IndexFunc(at, func(i int) bool { return t.takes(i, now) }), 0)])
}

// takes reports whether free messages may be sent to the partition, as far as is known. The cluster's mu is held.
func (t *topic) takes(index int, now time.Time) bool {
	leader := t.leaders[index]
	return leader != nil && t.partitions[index].avoided.Load() <= now.UnixNano() && leader.takes(now)
}

// takes reports whether a request would be sent to the broker. One that could not be reached is dialled in the
// background. Without that dial, nobody would notice that a broker is back which only free messages use: they avoid it
// as long as others take them.
func (b *broker) takes(now time.Time) bool {
	if b.failed != nil {
		b.redial(now)
		return false
	}
	return b.paused.Sub(now) <= maxThrottle && !b.rests(now)
}

// elsewhere returns the answer for a message that was not accepted, and notes the trouble that err names. The answer
// for a free message names its topic as the trouble only if no partition of the topic takes messages. Otherwise a hold
// on the topic would stop messages that can be sent elsewhere in the next call.
func (c *call) elsewhere(i int32, err error) error {
	e, ok := errors.AsType[*publisher.Error](err)
	if !ok || e.Fate.Kind != publisher.FatePartition && e.Fate.Kind != publisher.FateBroker {
		return err
	}
	p, cluster := c.route[i].partition, c.publisher.cluster
	p.avoided.Store(c.now.Add(avoidance).UnixNano())
	if !c.route[i].free {
		return err
	}
	free := *e
	free.Scope, free.Fate = publisher.ScopeTopic, publisher.Fate{Kind: publisher.FateTopic, Name: p.topic}
	cluster.mu.Lock()
	defer cluster.mu.Unlock()
	if t := cluster.topics[p.topic]; t != nil &&
		slices.ContainsFunc(t.indexes, func(at int) bool { return t.takes(at, c.now) }) {
		free.Scope, free.Fate = publisher.ScopeMessage, publisher.Fate{}
	}
	return &free
}
