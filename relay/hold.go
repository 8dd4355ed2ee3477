package relay

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// cause says why rows are held; it is the label reason of rows_held.
type cause string

const (
	causeRetry       cause = "retry"       // refused, waiting for the next try
	causeTopology    cause = "topology"    // the topic, stream, exchange or queue is missing
	causeUnavailable cause = "unavailable" // the broker, the topic or the partition is down
	causeFailed      cause = "failed"      // would have failed, but the table cannot say so
	causeOrder       cause = "order"       // may go on, after the next catch-up scan has come by

	causeBehindFailed cause = "behind_failed" // behind a failed row of the same key, which is to be retried or discarded

	causePaused cause = "paused" // due, while nothing is published to the destination
)

var causes = []cause{causeRetry, causeTopology, causeUnavailable, causeFailed, causeOrder, causeBehindFailed, causePaused}

// A hold is something at the broker that is in trouble, a circuit breaker: while it is there, one row tries it now and then, the head of
// one of the keys that wait, and nothing else that is known to share its fate is read or handed over.
type hold struct {
	fate     publisher.Fate
	cause    cause
	err      error
	failures int       // in a row
	until    time.Time // of the next try
	since    time.Time
	told     []string // what the log was told that it is held for, in short
	index    int      // among the holds that wait for their next try, -1 outside
	repeats  bool     // each try may leave a copy

	topics  []topic // whose rows share its fate; none where the topic does not tell
	waiting []*wait // keys that wait for it, and some that do no more
	probe   *wait   // whose head tries next or is trying; nil when the hold is half-open
	other   bool    // another key is to try next
	crowded bool    // keys that wait for it are in the crowd
	low     int64   // from where on rows without a key were passed over, or [nothing]
	open    bool    // half-open: the next row of it that a scan meets is its probe
	opened  uint32  // the scan that was under way or last then
}

func (h *hold) When() time.Time { return h.until }
func (h *hold) Place() *int     { return &h.index }

// topic names a topic of a destination; on an AMQP broker, a routing key on an exchange.
type topic struct{ exchange, name string }

// topicOf returns the topic that a row is published to.
func topicOf(r *row) topic { return topic{r.Message.Exchange, r.Message.Topic} }

// kept returns the topic with texts of its own: those of a row lie among the bytes of others, which they would keep alive.
func (t topic) kept() topic { return topic{strings.Clone(t.exchange), strings.Clone(t.name)} }

// holds are all that is known to be in trouble. Only the dispatch touches them.
type holds struct {
	byFate  map[publisher.Fate]*hold
	byTopic map[topic]*hold
	due     retry.Alarms[*hold]
	repeats retry.Repeats
	soon    map[publisher.FateKind]time.Time // when holds of a kind were last made due because one had ended
}

// mostHolds is how many are remembered. Keys that meet further ones wait for themselves.
const mostHolds = 10_000

func newHolds() holds {
	return holds{byFate: map[publisher.Fate]*hold{}, byTopic: map[topic]*hold{}, repeats: retry.Repeats{}, soon: map[publisher.FateKind]time.Time{}}
}

// of returns the hold that a row would run into, as far as its topic tells.
func (hs *holds) of(r *row) *hold {
	if len(hs.byTopic) == 0 {
		return nil
	}
	return hs.byTopic[topicOf(r)]
}

// orphaned lets another key try in place of one that has something else to do.
func (hs *holds) orphaned(h *hold) {
	h.probe = nil
	if hs.byFate[h.fate] == h && !h.open {
		hs.due.Set(h)
	}
}

// held lets a row wait for what its answer says is in trouble.
func (d *dispatch) held(r *row, c cause, err error, now time.Time) {
	fate, named := publisher.FateOf(err, r.Message.Topic)
	if !named || r.key.keyless && (fate.Kind == publisher.FatePartition || fate.Kind == publisher.FateBroker) {
		d.restAlone(r, c, now)
		return
	}
	h := d.holds.byFate[fate]
	if h == nil {
		if len(d.holds.byFate) >= mostHolds || d.waits.noRoom(r.hash) {
			d.restAlone(r, c, now)
			return
		}
		h = &hold{fate: fate, index: -1, low: nothing, since: now}
		d.holds.byFate[fate] = h
	}
	if publisher.ScopeOf(err) == publisher.ScopeTopic && d.holds.byTopic[topicOf(r)] != h {
		name := topicOf(r).kept()
		d.holds.byTopic[name] = h
		h.topics = append(h.topics, name)
	}
	repeats := publisher.Repeats(err)
	if repeats {
		d.metrics.republish()
	}
	w := d.waits.byKey[r.hash]
	tried := w != nil && w.trial == r && w.hold == h
	if h.failures == 0 || tried || !h.until.After(now) && h.probe == nil || repeats && !h.repeats { // once for all rows of a batch
		d.prolong(h, c, err, now)
	}
	if w != nil && w.hold != nil && w.hold != h && w.trial == r {
		d.release(w.hold, now) // its probe came further than that
	}
	d.join(r, h, now)
}

// prolong notes that a hold has begun or that a try has failed.
func (d *dispatch) prolong(h *hold, c cause, err error, now time.Time) {
	before := h.cause
	h.cause, h.err, h.open = c, err, false
	h.other = publisher.ClassOf(err) == publisher.Ambiguous
	h.failures++
	h.until = now.Add(retry.PauseAmong(d.causes(), h.failures))
	if h.repeats = publisher.Repeats(err); h.repeats {
		h.until = now.Add(max(h.until.Sub(now), d.holds.repeats.Pause(h.fate, now)))
	}
	d.holds.due.Set(h)
	short := publisher.ShortOf(err)
	switch {
	case len(h.topics) > 0 && (h.failures == 1 || before != c): // a better answer than the first
		h.told = append(h.told, short)
		d.tell(topicHeld, h, now)
	case len(h.topics) == 0 && now.Sub(h.since) >= partialAfter && !slices.Contains(h.told, short):
		h.told = append(h.told, short)
		d.tell(partHeld, h, now)
	}
}

// partialAfter is how long part of a topic is held before the log is told: leaders move in less.
const partialAfter = 2 * time.Second

// causes counts what is tried again by itself: what is in trouble, and keys that wait for a time of their own.
func (d *dispatch) causes() int { return len(d.holds.byFate) + len(d.waits.due) }

// join lets a row wait for a hold, and try it if no other does.
func (d *dispatch) join(r *row, h *hold, now time.Time) {
	if w := d.waits.byKey[r.hash]; w == nil && (r.key.keyless && h.probe != nil || d.waits.full()) {
		if r.key.keyless {
			h.low = min(h.low, low(r))
		} else {
			d.crowd(r.hash, low(r), now)
			h.crowded = true
		}
		return
	}
	w, ok := d.lead(r)
	if !ok {
		return
	}
	before := w.hold
	d.waits.enter(w, held, h.cause)
	if before != h {
		w.hold = h
		if before != nil && before.probe == w {
			d.holds.orphaned(before)
		}
		if len(h.waiting) == cap(h.waiting) {
			h.waiting = slices.DeleteFunc(h.waiting, func(w *wait) bool { return w.hold != h })
		}
		h.waiting = append(h.waiting, w)
	}
	if h.probe == nil {
		h.probe, h.open = w, false
	}
	if h.probe == w && h.index < 0 { // it may have been on its way to try
		d.holds.due.Set(h)
	}
}

// release ends a hold: what waited for it may go on.
func (d *dispatch) release(h *hold, now time.Time) {
	if d.holds.byFate[h.fate] != h {
		return
	}
	delete(d.holds.byFate, h.fate)
	for _, name := range h.topics {
		if d.holds.byTopic[name] == h {
			delete(d.holds.byTopic, name)
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
			w.hold = nil // it is under way by itself
		}
	}
	if c := d.waits.crowd; h.crowded && c != nil {
		d.waits.rest(&c.wait, causeOrder, now)
	}
	d.catch.wantOthers(h.low)
	if len(h.told) > 0 {
		d.tell(h.back(), h, now)
	}
	d.tryOthers(h.fate.Kind, now)
}

// tryOthers lets others of a kind be tried soon when one is back: a broker may have led a thousand partitions.
func (d *dispatch) tryOthers(kind publisher.FateKind, now time.Time) {
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

// mostSoon is how many are tried soon at a time.
const mostSoon = 100

// probe chooses for each hold that is due the head that tries it.
func (d *dispatch) probe(now time.Time) {
	for h, ok := d.holds.due.Past(now); ok; h, ok = d.holds.due.Past(now) {
		d.holds.due.Cancel(h)
		if h.choose(); h.probe != nil {
			d.ask(h.probe)
			continue
		}
		if h.low == nothing {
			d.release(h, now) // its rows are gone
			continue
		}
		h.open, h.opened = true, d.catch.number
		d.catch.wantOthers(h.low)
	}
}

// choose sets the probe: the present one, unless another is to try.
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

// closeUnmet ends the holds of which a scan has met no row.
func (d *dispatch) closeUnmet(now time.Time) {
	for _, h := range d.holds.byFate {
		if h.open && h.probe == nil && h.opened < d.catch.number {
			h.low = nothing
			d.release(h, now)
		}
	}
}
