package retry

import (
	"math/rand/v2"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Repeats knows the topics where a probe that fails may leave a copy of its row, because a topic leads to several
// queues and only some of them reject the row. It remembers how rare the probes have become for longer than a hold
// lasts: a hold ends with each row that is accepted, and a queue that is full and slowly read takes a row now and then.
type Repeats map[publisher.Fate]*repeated

type repeated struct {
	level int // number of times the pause has grown by a factor of two
	last  time.Time
}

const (
	repeatLeast  = 250 * time.Millisecond // already multiplied by two before the first probe
	RepeatMost   = time.Minute
	repeatForget = 5 * time.Minute // after the last failure
	mostRepeats  = 20_000          // topics; beyond this, those without a failure for long are forgotten, or others
)

// Pause returns how long the topic is left alone after a failure, with jitter: twice as long as after the previous
// failure.
func (r Repeats) Pause(name publisher.Fate, now time.Time) time.Duration {
	e := r[name]
	if e == nil || now.Sub(e.last) > repeatForget {
		if len(r) >= mostRepeats {
			r.shrink(now)
		}
		e = &repeated{}
		r[name] = e
	}
	e.level, e.last = min(e.level+1, 16), now
	most := bound(repeatLeast, RepeatMost, int64(e.level))
	return most/2 + rand.N(most/2)
}

// shrink makes room for some topics.
func (r Repeats) shrink(now time.Time) {
	for name, e := range r {
		if now.Sub(e.last) > repeatForget {
			delete(r, name)
		}
	}
	for name := range r {
		if len(r) <= mostRepeats*9/10 {
			break
		}
		delete(r, name)
	}
}

// Relent notes that a row of the topic was accepted where others had failed. The next pause is then not longer than the
// last.
func (r Repeats) Relent(name publisher.Fate) {
	if e := r[name]; e != nil {
		if e.level--; e.level <= 0 {
			delete(r, name)
		}
	}
}
