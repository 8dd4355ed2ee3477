package kafka

import (
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// agedTTL is how long it is remembered that a topic takes no old records; its settings may be changed.
const agedTTL = 10 * time.Minute

// A clock gives records their time, in milliseconds: that of the row, or else when it was inserted, where the topic takes that.
type clock struct {
	now      int64
	earliest int64 // older records get the time of now; 0 is none
}

// clock is that of the partition's next batch. sending gives all records the time of now.
func (p *partition) clock(now time.Time, sending bool) clock {
	t := clock{now: now.UnixMilli()}
	if sending {
		t.earliest = t.now
	} else if !p.aged.IsZero() && now.Sub(p.aged) < agedTTL {
		t.earliest = now.Add(-p.maxAge).UnixMilli()
	}
	return t
}

// of is the record's time. Topics refuse a time that is too far in the future, and it would keep the record, and all
// behind it, beyond their retention. Kafka has no times before 1970.
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

// oldest is the time of the oldest record.
func (t clock) oldest(messages []publisher.Message, queue []int32) int64 {
	oldest := t.now
	for _, i := range queue {
		oldest = min(oldest, t.of(&messages[i]))
	}
	return oldest
}

// retime gives up a batch that was refused for the time of a record, and reports whether another one may be taken. How
// old a record may be the broker does not say: those of the upper half of the ages get the time of now, again and
// again until the rest is taken.
func (j *job) retime() bool {
	p, now := j.partition, j.call.now
	age := now.Sub(time.UnixMilli(p.batch.oldest))
	if p.batch.oldest >= now.UnixMilli() {
		return false
	}
	if p.maxAge, p.aged = age/2, now; age < time.Second {
		p.maxAge = 0
	}
	j.drop()
	if j.call.publisher.cluster.retime(p.topic) {
		j.call.publisher.log.Warn("kafka topic refuses records as old as these rows: they are sent with the time of now; see its message.timestamp.before.max.ms",
			"topic", p.topic, "age", age.Round(time.Second))
	}
	return true
}

// retime notes that the topic refuses old records, and reports whether that is new.
func (c *cluster) retime(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.retimed[name]
	c.retimed[name] = true
	return !before
}
