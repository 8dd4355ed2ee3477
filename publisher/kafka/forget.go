package kafka

import "time"

const (
	// unknownTopic is the fixed wording for a topic that the cluster does not know.
	unknownTopic = "unknown topic"
	// idleTopic is how long a topic to which nothing is sent is remembered.
	idleTopic = time.Hour
	// searchPause is the pause between searches for such topics.
	searchPause = time.Minute
)

// forget removes a deleted topic and what was kept to be sent to it. A topic of the same name that is created later is
// a different one. If a call is using the topic, the topic stays until it is asked for again. c.mu is held.
func (c *cluster) forget(name string) {
	partitions := c.states[name].partitions
	for i, p := range partitions {
		if !p.turn.take(nil) {
			for _, taken := range partitions[:i] {
				taken.turn.release()
			}
			return
		}
	}
	for _, p := range partitions {
		if p.batch != nil {
			c.publisher.recall.forget(func(b *batch) bool { return b == p.batch })
			p.batch = nil
		}
		if p.producer.id >= 0 {
			c.publisher.identity.retire(p.producer.id)
		}
		p.dead = true
		p.turn.release()
	}
	delete(c.states, name)
	delete(c.topics, name)
}

// forgetIdle removes topics to which nothing has been sent for a long time, at most once per searchPause. c.mu is held.
func (c *cluster) forgetIdle(now time.Time) {
	if now.Sub(c.searched) < searchPause {
		return
	}
	c.searched = now
	for name, h := range c.states {
		// the metadata may have refused the topic since, and no call asks for it again
		if now.Sub(h.learned) > idleTopic {
			c.forget(name)
		}
	}
}
