package dispatch

import (
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/report"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// A Cause is the reason why rows are held. It is the label reason of rows_held.
type Cause = string

const (
	CauseRetry       Cause = "retry"       // refused, waiting for the next try
	CauseTopology    Cause = "topology"    // the topic, stream, exchange or queue is missing
	CauseUnavailable Cause = "unavailable" // the broker, the topic or the partition is down
	CauseFailed      Cause = "failed"      // would have failed, but the table cannot record it
	causeOrder       Cause = "order"       // may go on after the next catch-up scan has passed

	CauseBehindFailed Cause = "behind_failed" // waits for a failed row of the same key to be retried or discarded

	CausePaused Cause = "paused" // due while the destination is paused
)

// Causes are all causes.
var Causes = []Cause{CauseRetry, CauseTopology, CauseUnavailable, CauseFailed, causeOrder, CauseBehindFailed, CausePaused}

// A hold is a circuit breaker for something at the broker that is in trouble. While it is open, the head of one of the
// waiting keys tries it now and then. No other row that is known to share its fate is read or handed over.
type hold struct {
	fate     publisher.Fate
	cause    Cause
	err      error
	failures int       // failed tries in a row
	until    time.Time // time of the next try
	since    time.Time
	logged   []string // reasons of the hold that have been logged, in short
	index    int      // index among the holds that wait for their next try; -1 if it is not there
	repeats  bool     // each try may leave a copy

	topics   []publisher.Address // addresses whose rows share its fate; none if the address does not decide that
	waiting  []*Wait             // keys that wait for it, and some that no longer do
	probe    *Wait               // key whose head tries next or is trying; nil if the hold is half-open
	other    bool                // another key is to try next
	crowded  bool                // the crowd has keys that wait for it
	low      int64               // where the first row without a key was passed over, or [nothing]
	halfOpen bool                // the next row of it that a scan meets is its probe
	scan     uint32              // number of the current or last scan when it became half-open
}

// When returns the time of the next try.
func (h *hold) When() time.Time { return h.until }

// Place returns where the hold's index among the alarms is kept.
func (h *hold) Place() *int { return &h.index }

// addressOf returns where a row is published to.
func addressOf(r *Row) publisher.Address {
	return publisher.Address{Topic: r.Message.Topic, Exchange: r.Message.Exchange}
}

// holds are the holds of everything that is known to be in trouble. Only the dispatch touches them.
type holds struct {
	byFate  map[publisher.Fate]*hold
	byTopic map[publisher.Address]*hold
	begun   []*hold // oldest first, with some that have ended
	logged  int     // number of those whose beginning was logged
	due     retry.Alarms[*hold]
	repeats retry.Repeats
	soon    map[publisher.FateKind]time.Time // when holds of a kind were last made due because one of them had ended
}

// mostHolds is the largest number of holds that are remembered. A key that meets a further trouble waits by itself.
const mostHolds = 10_000

func newHolds() holds {
	return holds{
		byFate: map[publisher.Fate]*hold{}, byTopic: map[publisher.Address]*hold{},
		repeats: retry.Repeats{}, soon: map[publisher.FateKind]time.Time{},
	}
}

// add remembers a hold that has begun.
func (hs *holds) add(h *hold) {
	hs.byFate[h.fate] = h
	hs.begun = append(hs.begun, h)
}

// remove forgets a hold that has ended.
func (hs *holds) remove(h *hold) {
	delete(hs.byFate, h.fate)
	if len(h.logged) > 0 {
		hs.logged--
	}
	if len(hs.begun) > 2*len(hs.byFate)+mostHoldsShown {
		hs.begun = slices.DeleteFunc(hs.begun, func(h *hold) bool { return !hs.has(h) })
	}
}

// has reports whether a hold has not ended.
func (hs *holds) has(h *hold) bool { return hs.byFate[h.fate] == h }

// oldest returns the holds that have not ended, oldest first.
func (hs *holds) oldest() iter.Seq[*hold] {
	return func(yield func(*hold) bool) {
		for _, h := range hs.begun {
			if hs.has(h) && !yield(h) {
				return
			}
		}
	}
}

// of returns the hold that a row would meet, as far as its topic decides that.
func (hs *holds) of(r *Row) *hold {
	if len(hs.byTopic) == 0 {
		return nil
	}
	return hs.byTopic[addressOf(r)]
}

// orphaned makes another key try in place of one that has something else to do.
func (hs *holds) orphaned(h *hold) {
	h.probe = nil
	if hs.has(h) && !h.halfOpen {
		hs.due.Set(h)
	}
}

// held makes a row wait for what its answer says is in trouble.
func (d *Dispatch) held(r *Row, c Cause, err error, now time.Time) {
	fate, named := publisher.FateOf(err, r.Message.Topic)
	if !named || r.key.keyless && (fate.Kind == publisher.FatePartition || fate.Kind == publisher.FateBroker) {
		d.restAlone(r, c, now)
		return
	}
	h := d.holds.byFate[fate]
	if h == nil {
		if len(d.holds.byFate) >= mostHolds || d.waits.noRoom(r.Hash) {
			d.restAlone(r, c, now)
			return
		}
		h = &hold{fate: fate, index: -1, low: nothing, since: now}
		d.holds.add(h)
	}
	if publisher.ScopeOf(err) == publisher.ScopeTopic && d.holds.byTopic[addressOf(r)] != h {
		// The strings of a row lie among the bytes of other rows and would keep them in memory.
		to := publisher.Address{Topic: strings.Clone(r.Message.Topic), Exchange: strings.Clone(r.Message.Exchange)}
		d.holds.byTopic[to] = h
		h.topics = append(h.topics, to)
	}
	repeats := publisher.Repeats(err)
	if repeats {
		d.Measure.Republish()
	}
	w := d.waits.byKey[r.Hash]
	tried := w != nil && w.trial == r && w.hold == h
	if h.failures == 0 || tried || !h.until.After(now) && h.probe == nil || repeats && !h.repeats { // once for all rows of a batch
		d.prolong(h, c, err, now)
	}
	if w != nil && w.hold != nil && w.hold != h && w.trial == r {
		d.release(w.hold, now) // its probe came further than this hold
	}
	d.join(r, h, now)
}

// prolong notes that a hold has begun or that a try has failed.
func (d *Dispatch) prolong(h *hold, c Cause, err error, now time.Time) {
	before := h.cause
	h.cause, h.err, h.halfOpen = c, err, false
	h.other = publisher.ClassOf(err) == publisher.Ambiguous
	h.failures++
	h.until = now.Add(retry.PauseAmong(d.causes(), h.failures))
	if h.repeats = publisher.Repeats(err); h.repeats {
		h.until = now.Add(max(h.until.Sub(now), d.holds.repeats.Pause(h.fate, now)))
	}
	d.holds.due.Set(h)
	short, news := publisher.ShortOf(err), h.failures == 1 || before != c // the answer says more than the first one
	if len(h.topics) == 0 {
		news = now.Sub(h.since) >= partialAfter && !slices.Contains(h.logged, short)
	}
	if !news {
		return
	}
	if len(h.logged) == 0 {
		d.holds.logged++
	}
	h.logged = append(h.logged, short)
	d.announce(h, c, now)
}

// announce logs that a hold has begun or has another reason, or, with the reason "", that it has ended.
func (d *Dispatch) announce(h *hold, reason Cause, now time.Time) {
	change, name := report.Change{Part: len(h.topics) == 0, Reason: reason}, h.fate.String()
	if !change.Part {
		name = h.topics[0].Topic
	}
	d.topicLog.Add(change, name, h.err, now)
}

// partialAfter is how long part of a topic is held before the hold is logged. Leaders move in less time.
const partialAfter = 2 * time.Second

// causes counts what is tried again by itself: holds, and keys that wait for a time of their own.
func (d *Dispatch) causes() int { return len(d.holds.byFate) + len(d.waits.due) }

// join makes a row wait for a hold, and try it if no other row does.
func (d *Dispatch) join(r *Row, h *hold, now time.Time) {
	if w := d.waits.byKey[r.Hash]; w == nil && (r.key.keyless && h.probe != nil || d.waits.full()) {
		if r.key.keyless {
			h.low = min(h.low, low(r))
			if h.halfOpen { // the row was met, and there is no room for it to try
				h.halfOpen, h.until = false, now.Add(retry.PauseAmong(d.causes(), h.failures))
				d.holds.due.Set(h)
			}
		} else {
			d.crowd(r.Hash, low(r), now)
			h.crowded = true
		}
		return
	}
	w, ok := d.lead(r)
	if !ok {
		return
	}
	d.waits.enter(w, held, h.cause)
	d.joined(w, h)
	if h.probe == nil {
		h.probe, h.halfOpen = w, false
	}
	if h.probe == w && h.index < 0 { // it may have been on its way to try
		d.holds.due.Set(h)
	}
}

// joined makes a key wait for a hold instead of for the one that it has waited for before, if any.
func (d *Dispatch) joined(w *Wait, h *hold) {
	before := w.hold
	if before == h {
		return
	}
	w.hold = h
	if before != nil && before.probe == w {
		d.holds.orphaned(before)
	}
	if len(h.waiting) == cap(h.waiting) {
		h.waiting = slices.DeleteFunc(h.waiting, func(w *Wait) bool { return w.hold != h })
	}
	h.waiting = append(h.waiting, w)
}

// release ends a hold: what waited for it may go on.
func (d *Dispatch) release(h *hold, now time.Time) {
	if !d.holds.has(h) {
		return
	}
	d.holds.remove(h)
	for _, to := range h.topics {
		if d.holds.byTopic[to] == h {
			delete(d.holds.byTopic, to)
		}
	}
	d.holds.due.Cancel(h)
	d.holds.repeats.Relent(h.fate)
	h.probe = nil
	for _, w := range h.waiting {
		switch {
		case w.hold != h:
		case w.state == held:
			w.low = min(w.low, w.head)
			d.catchUp(w)
		default:
			w.hold = nil // the key is under way by itself
		}
	}
	if c := d.waits.crowd; h.crowded && c != nil {
		d.waits.rest(&c.Wait, causeOrder, now)
	}
	d.catch.want(andKeyless, h.low)
	if len(h.logged) > 0 {
		d.announce(h, "", now)
	}
	d.tryOthers(h.fate.Kind, now)
}

// tryOthers makes other holds of a kind be tried soon when one of them has ended, since a broker may have led a
// thousand partitions.
func (d *Dispatch) tryOthers(kind publisher.FateKind, now time.Time) {
	if now.Sub(d.holds.soon[kind]) < retry.ShortestHold {
		return
	}
	d.holds.soon[kind] = now
	n := 0
	for _, h := range d.holds.byFate {
		if h.fate.Kind != kind || h.index < 0 || h.repeats {
			continue
		}
		if soon := now.Add(rand.N(retry.ShortestHold / 4)); soon.Before(h.until) {
			h.until = soon
			d.holds.due.Set(h)
		}
		if n++; n == mostSoon {
			break
		}
	}
}

// mostSoon is how many holds are made due at a time.
const mostSoon = 100

// probe chooses, for each hold that is due, the head that tries it.
func (d *Dispatch) probe(now time.Time) {
	for h, ok := d.holds.due.Past(now); ok; h, ok = d.holds.due.Past(now) {
		d.holds.due.Cancel(h)
		if h.tries() {
			continue // the answer says when to try next
		}
		if h.choose(); h.probe != nil {
			d.ask(h.probe)
			continue
		}
		if h.low == nothing {
			d.release(h, now) // the rows that waited for it are gone
			continue
		}
		h.halfOpen, h.scan = true, d.catch.number
		d.catch.want(andKeyless, h.low)
	}
}

// tries reports whether the probe is being read, queued or on the wire.
func (h *hold) tries() bool {
	return h.probe != nil && h.probe.hold == h && (h.probe.state == asked || h.probe.state == trial)
}

// choose sets the probe. The present probe stays unless another key is to try.
func (h *hold) choose() {
	if h.probe != nil && h.probe.hold == h && h.probe.state == held && !h.other {
		return
	}
	h.probe, h.other = nil, false
	for range len(h.waiting) {
		w := h.waiting[0]
		h.waiting = h.waiting[1:]
		if w.hold != h || w.state != held {
			continue
		}
		h.waiting = append(h.waiting, w)
		h.probe = w
		return
	}
}

// CloseUnmet ends the half-open holds whose rows a scan has not met.
func (d *Dispatch) CloseUnmet(now time.Time) {
	for _, h := range d.holds.byFate {
		if h.halfOpen && h.probe == nil && h.scan < d.catch.number {
			h.low = nothing
			d.release(h, now)
		}
	}
}
