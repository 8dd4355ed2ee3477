package retry

import (
	"math/rand/v2"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Repeats knows the topics where a probe that fails may leave a copy of its row, because one of several queues behind them
// rejects while the others take. How rare the probes have become outlives a hold, which ends with each row that is accepted: a
// queue that is full and slowly read takes one now and then.
type Repeats map[publisher.Fate]*repeated

type repeated struct {
	level int // by which the pause has doubled
	last  time.Time
}

const (
	repeatLeast  = 250 * time.Millisecond // doubled before the first probe already
	RepeatMost   = time.Minute
	repeatForget = 5 * time.Minute // after the last failure
	mostRepeats  = 20_000          // topics; beyond, those without a failure for long are forgotten, or any
)

// Pause returns how long the topic is left alone after a failure, with jitter: twice as long as after the one before.
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

// Relent notes that a row of the topic was accepted where others had failed: the next pause is no longer than the last.
func (r Repeats) Relent(name publisher.Fate) {
	if e := r[name]; e != nil {
		if e.level--; e.level <= 0 {
			delete(r, name)
		}
	}
}
