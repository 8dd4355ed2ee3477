package kafka

import (
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// agedTTL is how long a partition's refusal of old records is remembered. The topic's settings may be changed.
const agedTTL = 10 * time.Minute

// A clock gives records their time in milliseconds: the time of the row, or else the time at which it was inserted, if
// the topic accepts that.
type clock struct {
	now    int64
	always bool // records get the current time
}

// clock returns the clock for the partition's next batch. If sending is true, all records get the current time.
func (p *partition) clock(now time.Time, sending bool) clock {
	return clock{now.UnixMilli(), sending || now.Sub(p.aged) < agedTTL}
}

// of returns the time of a record. A time in the future becomes the current time: topics refuse a time too far ahead,
// and it would keep the record, and all records after it, beyond their retention. Kafka has no times before 1970.
func (t clock) of(m *publisher.Message) int64 {
	time := m.Inserted
	if !m.Time.IsZero() {
		time = m.Time
	}
	at := time.UnixMilli()
	if t.always || time.IsZero() || at > t.now {
		return t.now
	}
	return max(at, 0)
}

// retime gives up a batch that was refused because of the time of a record, and reports whether another batch may be
// tried. The broker says neither which record it refuses nor how old a record may be, so that the partition's records
// get the current time for a while. A refused batch keeps its sequence, so this costs one request and no epoch.
func (j *job) retime() bool {
	p, config := j.partition, &j.call.publisher.config
	if p.clock(j.call.now, config.SendingTime).always {
		return false
	}
	p.aged = j.call.now
	j.drop()
	if _, logged := j.call.publisher.cluster.retimed.LoadOrStore(p.topic, nil); !logged {
		config.Logger.Warn("kafka topic refuses records as old as these rows: they are sent with the time of now; "+
			"see its message.timestamp.before.max.ms", "topic", p.topic)
	}
	return true
}
