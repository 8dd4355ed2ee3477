package kafka

import (
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// agedTTL is how long a topic's refusal of old records is remembered. The topic's settings may be changed.
const agedTTL = 10 * time.Minute

// A clock gives records their time in milliseconds: the time of the row, or else the time at which it was inserted, if
// the topic accepts that.
type clock struct {
	now      int64
	earliest int64 // time before which records get the current time instead; 0 if there is none
}

// clock returns the clock for the partition's next batch. If sending is true, all records get the current time.
func (p *partition) clock(now time.Time, sending bool) clock {
	t := clock{now: now.UnixMilli()}
	if sending {
		t.earliest = t.now
	} else if now.Sub(p.aged) < agedTTL {
		t.earliest = now.Add(-p.maxAge).UnixMilli()
	}
	return t
}

// of returns the time of a record. A time in the future becomes the current time: topics refuse a time too far ahead,
// and it would keep the record, and all records after it, beyond their retention. Kafka has no times before 1970.
func (t clock) of(m *publisher.Message) int64 {
	time := m.Inserted
	if !m.Time.IsZero() {
		time = m.Time
	}
	at := time.UnixMilli()
	if time.IsZero() || at > t.now || t.earliest > 0 && at < t.earliest {
		return t.now
	}
	return max(at, 0)
}

// retime gives up a batch that was refused because of the time of a record, and reports whether another batch may be
// tried. The broker does not say how old a record may be. The records in the upper half of the ages therefore get the
// current time, repeatedly, until the rest is accepted.
func (j *job) retime() bool {
	p, now := j.partition, j.call.now
	age := now.Sub(time.UnixMilli(p.batch.oldest))
	if age < time.Millisecond {
		return false
	}
	if p.maxAge, p.aged = age/2, now; age < time.Second {
		p.maxAge = 0
	}
	j.drop()
	if j.call.publisher.cluster.retime(p.topic) {
		j.call.publisher.config.Logger.Warn("kafka topic refuses records as old as these rows: they are sent with "+
			"the time of now; see its message.timestamp.before.max.ms", "topic", p.topic, "age", age.Round(time.Second))
	}
	return true
}

// retime notes that the topic refuses old records, and reports whether that is new.
func (c *cluster) retime(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.states[name]
	if h == nil || h.retimed {
		return false
	}
	h.retimed = true
	return true
}
