package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// What is in trouble at the broker is held here: a topic, a partition, one broker of several. The publisher says which,
// as a fate, and all keys that meet the same fate wait for one hold. One key tries it at a time, with pauses that grow,
// so that the cost of a missing topic does not depend on how many keys or rows wait for it. With 300,000 rows of
// 100,000 keys that wait for one topic, a simulation of 40 seconds counted five publishes in vain.

// A Cause is the reason why rows are held. It is the label reason of rows_held, and operators' alerts name it: a cause
// that is renamed breaks them.
type Cause = string

const (
	CauseRetry        Cause = "retry"         // refused, waiting for the next try
	CauseTopology     Cause = "topology"      // the topic, stream, exchange or queue is missing
	CauseUnavailable  Cause = "unavailable"   // the broker, the topic or the partition is down
	CauseFailed       Cause = "failed"        // would have failed, but the table cannot record it
	CauseBehindFailed Cause = "behind_failed" // waits for a failed row of the same key to be retried or discarded
	CausePaused       Cause = "paused"        // due while the destination is paused
	CauseMark         Cause = "mark"          // the database does not take the outcome, or would not take the mark
	causeOrder        Cause = "order"         // goes on as soon as the rows of its key have been read
)

// Causes are all causes.
var Causes = []Cause{
	CauseRetry, CauseTopology, CauseUnavailable, CauseFailed, causeOrder, CauseBehindFailed, CauseMark, CausePaused,
}

// A hold is a circuit breaker for something at the broker that is in trouble. Keys whose first row meets it wait. The
// first of them tries it now and then, and rests meanwhile like any key that is read by itself. Its pauses grow to half
// a second, and to 15 s while very many things are in trouble at once: each try is a read and a publish that other rows
// do not get.
//
// A hold ends with the first row that is accepted or refused, for the broker has taken it up. If no key is left to try
// it, it ends too: the next row that meets the trouble begins another one. Only what a hold has logged outlives it, and
// for a queue that gets a copy with each try, how rare the tries have become.
type hold struct {
	fate     publisher.Fate
	cause    Cause
	err      error
	topics   []publisher.Address // addresses whose rows share the fate; none if the address alone does not decide that
	keys     []uint64            // keys that wait, in the order in which they came, with some that do not wait any more
	live     int                 // number of those that do
	probe    *key                // key that tries it and rests until then; nil if none is left
	failures int                 // failed tries in a row; they make the next pause longer
	since    time.Time           // of the first answer
	due      time.Time           // of the next try
	logged   Cause               // the last that was logged
}

// holds are all holds of a destination, at most one for eight of Limits.Keys: some 16,000.
type holds struct {
	by      map[publisher.Fate]*hold
	topics  map[publisher.Address]*hold // those whose address decides: rows need not be published to meet them
	begun   []*hold                     // oldest first
	untried []*hold                     // those whose probe is gone
	repeats recent[publisher.Fate, repeated]
}

// classCause returns the cause for which rows with such an answer are held.
func classCause(class publisher.Class) Cause {
	if class == publisher.Topology {
		return CauseTopology
	}
	return CauseUnavailable
}

// join adds a key that waits. Keys that wait no longer stay in the list, and are thrown out when it would have to grow,
// so that keys that come and go do not make a hold of an hour grow for ever.
func (h *hold) join(e *Engine, key uint64) {
	if len(h.keys) == cap(h.keys) {
		h.keys = slices.DeleteFunc(h.keys, func(key uint64) bool { return e.waits.by[key].hold != h })
	}
	h.keys = append(h.keys, key)
	h.live++
}

// hold makes a key wait for what the answer for its first row says is in trouble. Its rows are first in its queue
// again, and are forgotten: they are read again when the key goes on.
func (e *Engine) hold(k *key, f publisher.Fate, err error, now time.Time) {
	c := classCause(publisher.ClassOf(err))
	// A hold concerns everything that shares the fate, so that ten thousand keys of a missing topic cost one try and
	// not ten thousand. Beyond the number of holds that are remembered, each key is tried by itself, with pauses that
	// grow with the number of keys that rest.
	h := e.holds.by[f]
	part := f.Kind == publisher.FatePartition || f.Kind == publisher.FateBroker
	// A row without a key may go to another partition the next time.
	if h == nil && len(e.holds.by) >= max(1, e.Limits.Keys/8) || k.keyless && part {
		k.tries++
		e.rest(k, c, now.Add(e.pause(k.tries)))
		return
	}
	if h == nil {
		h = &hold{fate: f, since: now, cause: c}
		k.hold, h.probe = h, k
		e.holds.by[f] = h
		e.holds.begun = append(e.holds.begun, h)
	}
	if to := addressOf(k.queue[0]); publisher.ScopeOf(err) == publisher.ScopeTopic && e.holds.topics[to] != h {
		// The texts lie among the bytes of all rows of a read, which they would keep in memory.
		to.Topic, to.Exchange = strings.Clone(to.Topic), strings.Clone(to.Exchange)
		e.holds.topics[to] = h
		h.topics = append(h.topics, to)
	}
	repeats := publisher.Repeats(err)
	if repeats {
		e.Measure.Republish()
	}
	// The answer of the key which tries makes the next pause longer. Keys that were on the wire when the hold began say
	// the same again, and do not.
	if k.hold == h || repeats && !publisher.Repeats(h.err) {
		e.prolong(h, c, err, now)
	}
	if k.hold != h {
		e.wait(k, h)
		return
	}
	k.hold = nil // or another key would try it
	e.shut(k, resting)
	k.hold = h
	e.until(k, c, h.due)
}

// prolong notes that a hold has begun or that a try has failed. The class may be another one than the last time: a
// stream without a leader looks like one that is missing until JetStream has been asked. The log says so again then.
func (e *Engine) prolong(h *hold, c Cause, err error, now time.Time) {
	before := h.cause
	e.held[before] -= int64(h.live)
	e.held[c] += int64(h.live)
	h.cause, h.err = c, err
	h.failures++
	h.due = now.Add(e.pause(h.failures))
	if publisher.Repeats(err) { // each try may leave a copy
		h.due = later(h.due, now.Add(e.repeatPause(h.fate, now)))
	}
	if k := h.probe; k != nil && k.state == resting { // the answer is another key's
		e.until(k, c, h.due)
	}
	// Part of a topic has to be held for a moment before the log says so: leaders move in less time.
	if part := len(h.topics) == 0; h.logged != c && (!part || now.Sub(h.since) >= partialAfter) {
		h.logged = c
		switch {
		case !e.isNews(topicLines, now):
		case part:
			e.Logger.Warn("rows of a topic are held", "topic", h.fate.String(), "reason", c, "error", err)
		default:
			e.Logger.Warn("topic is held", "topic", h.topics[0].Topic, "reason", c, "error", err)
		}
	}
}

// partialAfter is how long a part of a topic is held before the log says so. Kafka moves the leader of a partition in
// less.
const partialAfter = 2 * time.Second

// unprobe makes another key try the hold that a key was to try. It is called wherever a key's queue is forgotten: a
// hold whose probe is gone and that did not know it would be tried by nobody.
func (e *Engine) unprobe(k *key) {
	if h := k.hold; h != nil {
		h.probe, k.hold = nil, nil
		e.holds.untried = append(e.holds.untried, h)
	}
}

// probes is how many keys are read at once for a hold whose probe is gone: the rows of many may have been deleted. One
// at a time, and with pauses of 15 s, 700 such keys would take three hours.
const probes = 64

// try finds a key for each hold that none tries.
func (e *Engine) try(now time.Time) {
	hs := &e.holds
	for ; len(hs.untried) > 0; hs.untried = hs.untried[1:] {
		h := hs.untried[0]
		k, _ := e.resumeSome(h, probes, e.room(false), h.due)
		switch {
		case k != nil: // one tries, and its answer is the hold's
			h.probe, k.hold = k, h
			e.until(k, h.cause, h.due)
		case h.live > 0: // there is no room
			return
		default:
			e.release(h, now) // what waited for it is gone, or not remembered: the next row that meets it tries
		}
	}
}

// release ends a hold: what waited for it goes on, by promote.
func (e *Engine) release(h *hold, now time.Time) {
	if h.probe != nil {
		h.probe.hold, h.probe = nil, nil
	}
	delete(e.holds.by, h.fate)
	i := slices.Index(e.holds.begun, h)
	e.holds.begun = slices.Delete(e.holds.begun, i, i+1)
	for _, to := range h.topics {
		if e.holds.topics[to] == h {
			delete(e.holds.topics, to)
		}
	}
	// A queue that is full and read slowly takes a row now and then: the pause would grow although rows flow.
	if r, known := e.holds.repeats.get(h.fate); known { // the next pause is not longer than the last
		r.level--
		e.holds.repeats.put(h.fate, r)
	}
	e.waits.freed = append(e.waits.freed, h)
	switch {
	case h.logged == "" || !e.isNews(topicLines, now):
	case len(h.topics) == 0:
		e.Logger.Info("rows of a topic are held no longer", "topic", h.fate.String())
	default:
		e.Logger.Info("topic is back", "topic", h.topics[0].Topic)
	}
}

// repeated is a topic where a try that fails may leave a copy of its row: it leads to several queues, and only some of
// them reject the row. How rare the tries have become is remembered for longer than a hold lasts: a hold ends with each
// row that is accepted, and a queue that is full and slowly read takes a row now and then.
type repeated struct {
	level int // number of times the pause has grown by a factor of two
	last  time.Time
}

// Pauses of tries that may leave a copy. With those of other holds, half a second at most, three rows that one of
// several queues rejected left 163 copies in the others within a minute.
const (
	repeatLeast  = 250 * time.Millisecond // already multiplied by two before the first try
	repeatMost   = time.Minute
	repeatForget = 5 * time.Minute // after the last failure
)

// repeatPause returns how long a topic is left alone after a try that may have left a copy: twice as long as after the
// one before.
func (e *Engine) repeatPause(f publisher.Fate, now time.Time) time.Duration {
	r, _ := e.holds.repeats.get(f)
	if now.Sub(r.last) > repeatForget {
		r.level = 0
	}
	r = repeated{level: min(max(r.level, 0)+1, 16), last: now}
	e.holds.repeats.put(f, r)
	most := retry.Doubled(repeatLeast, repeatMost, int64(r.level))
	return most/2 + e.Jitter(most/2)
}
