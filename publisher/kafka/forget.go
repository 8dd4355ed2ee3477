package kafka

import "time"

const (
	// unknownTopic is the cause, in fixed words, that the cluster knows no such topic.
	unknownTopic = "unknown topic"
	// idleTopic is how long a topic is remembered that nothing is sent to.
	idleTopic = time.Hour
	// sweepPause is how often such topics are looked for.
	sweepPause = time.Minute
)

// forget forgets a topic that was deleted, and what was kept to be sent to it: a topic of that name that is made
// later is another one. Where a call is at work the topic stays until it is asked for again. c.mu is held.
func (c *cluster) forget(name string) {
	partitions := c.states[name]
	for i, p := range partitions {
		if !p.turn.try() {
			for _, taken := range partitions[:i] {
				taken.turn.release()
			}
			return
		}
	}
	for _, p := range partitions {
		if p.batch != nil {
			c.publisher.recall.forget(p.batch)
			p.batch = nil
		}
		c.publisher.identity.spend(p.producer)
		p.dead = true
		p.turn.release()
	}
	delete(c.states, name)
	delete(c.topics, name)
	delete(c.counts, name)
	delete(c.retimed, name)
}

// forgetIdle forgets topics that nothing was sent to for long, now and then; c.mu is held.
func (c *cluster) forgetIdle(now time.Time) {
	if now.Sub(c.swept) < sweepPause {
		return
	}
	c.swept = now
	for name := range c.states {
		if now.Sub(c.counts[name].learned) > idleTopic { // the metadata may have refused it since, and nobody asks again
			c.forget(name)
		}
	}
}
