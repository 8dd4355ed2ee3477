package relay

import (
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// cause says why rows are held; it is the label reason of rows_held.
type cause string

const (
	causeRetry       cause = "retry"       // refused, waiting for the next try
	causeTopology    cause = "topology"    // the topic, stream, exchange or queue is missing
	causeUnavailable cause = "unavailable" // the broker, the topic or the partition is down
	causeFailed      cause = "failed"      // would have failed, but the table cannot say so
	causeOrder       cause = "order"       // behind a row of the same key that is under way elsewhere

	causeBehindFailed cause = "behind_failed" // behind a failed row of the same key, which is to be retried or discarded
)

var causes = []cause{causeRetry, causeTopology, causeUnavailable, causeFailed, causeOrder, causeBehindFailed}

// hold is a destination or topic that cannot be published to now. While it is active nothing goes
// there but one probe at a time, which is a real batch.
type hold struct {
	topic    topic // of a topic's hold
	cause    cause
	err      error
	failures int // in a row; 0 when nothing is held
	until    time.Time
	index    int // among the holds that wait for their next probe, -1 outside
	probing  bool
	blocks   map[*block]struct{} // keys that wait for it
	repeats  bool                // each probe may leave a copy
	skipped  bool                // rows were passed over; the walk begins anew when the hold ends
}

func (h *hold) active() bool { return h != nil && h.failures > 0 }

func (h *hold) when() time.Time { return h.until }
func (h *hold) place() *int     { return &h.index }

// fail begins the hold or prolongs it, beside so many others, and reports whether it began.
func (h *hold) fail(c cause, err error, others int, now time.Time) bool {
	h.cause, h.err = c, err
	h.failures++
	h.until, h.probing = now.Add(pauseAmong(others, h.failures)), false
	return h.failures == 1
}

// topic names a topic of a destination; on an AMQP broker, a routing key on an exchange.
type topic struct {
	destination    *destination
	exchange, name string
}

// topicOf returns the topic that a row is published to.
func topicOf(r *row) topic { return topic{r.destination, r.Message.Exchange, r.Message.Topic} }

// kept returns the topic with texts of its own: those of a row lie among the bytes of others, which they would keep alive.
func (t topic) kept() topic {
	t.exchange, t.name = strings.Clone(t.exchange), strings.Clone(t.name)
	return t
}

// held lets the row's key wait for its destination or topic, or for a moment.
func (a *answers) held(r *row, c cause, err error) {
	scope := publisher.ScopeOf(err)
	if scope == publisher.ScopeDestination {
		a.down, a.reason = err, c
		if a.single() {
			a.requeue(r)
			return
		}
		a.to.hold.cause, a.to.hold.err = c, err
	} else {
		a.alive = true
	}
	unknown := a.blocks.byKey[r.key] == nil
	switch h := a.holdFor(r, scope, c, err); {
	case h != nil && unknown && r.key.keyless && len(h.blocks) > 0:
		h.skipped = true
	case unknown && a.full():
		a.pass(r, h, a.now)
	case h != nil:
		a.blocks.waitFor(a.block(r, c), h)
	default:
		b := a.block(r, c)
		b.failures++
		due := a.now.Add(pauseAmong(a.causes(), b.failures))
		b.part = a.holdPart(r, c, err, due)
		a.blocks.waitUntil(b, due)
	}
	a.drop(r)
}

// holdFor returns what the row waits for: its destination, or its topic, which is held now. It is nil where it waits by itself, or where
// there is no room to remember another topic: without a key that waits for it nobody would try it.
func (a *answers) holdFor(r *row, scope publisher.Scope, c cause, err error) *hold {
	switch scope {
	case publisher.ScopeDestination:
		return &a.to.hold
	case publisher.ScopeTopic:
	default:
		return nil
	}
	name, repeats := topicOf(r), publisher.Repeats(err)
	if repeats {
		a.metrics.republish()
	}
	h := a.topics[name]
	if h == nil {
		if a.blocks.byKey[r.key] == nil && a.full() {
			return nil
		}
		name = name.kept()
		h = &hold{topic: name, index: -1}
		a.topics[name] = h
	}
	if !h.active() || h.until.Before(a.now) || repeats && !h.repeats { // once for all rows of the batch
		before := h.cause
		began := h.fail(c, err, a.causes(), a.now)
		if h.repeats = repeats; repeats {
			h.until = a.now.Add(max(h.until.Sub(a.now), a.repeats.pause(name, a.now)))
		}
		if a.blocks.probes.set(h); began || before != c { // a better answer than the first
			a.tell(topicHeld, name, c, err, a.now)
		}
	}
	return h
}

// causes counts what is tried again by itself: topics that are held, and keys that wait for a time of their own.
func (d *dispatch) causes() int { return len(d.topics) + len(d.blocks.due) }

// release ends a hold: everything that waited for it is read again.
func (d *dispatch) release(h *hold) {
	h.failures, h.err, h.probing = 0, nil, false
	d.blocks.probes.cancel(h)
	for b := range h.blocks {
		delete(h.blocks, b)
		b.hold = nil
		if b.phase == waiting {
			b.want = wantAll
			d.blocks.makeReady(b)
		}
	}
	if h.skipped {
		h.skipped, d.rewind = false, true
	}
	if d.topics[h.topic] == h {
		delete(d.topics, h.topic)
	}
}

// probe chooses for each hold that is due one of the keys that wait for it.
func (d *dispatch) probe(now time.Time) {
	if d.overflow.active() && !now.Before(d.overflow.until) {
		d.release(&d.overflow)
	}
	d.endPartials(now)
	for h, ok := d.blocks.probes.past(now); ok; h, ok = d.blocks.probes.past(now) {
		d.blocks.probes.cancel(h)
		for b := range h.blocks {
			h.probing = true
			d.blocks.makeReady(b)
			break
		}
		if !h.probing {
			d.release(h) // its rows are gone
		}
	}
}

// nextProbe returns when queued rows may try their destination that is held.
func (d *dispatch) nextProbe() (time.Time, bool) {
	var next earliest
	for _, to := range d.destinations {
		for i := range to.queues {
			if d.single() && to.hold.active() && !to.hold.probing && !to.busy[i] && to.queues[i].len() > 0 {
				next.consider(to.hold.until)
			}
		}
	}
	return next.time, !next.time.IsZero()
}

// earliest is the earliest of some times.
type earliest struct{ time time.Time }

func (e *earliest) consider(t time.Time) {
	if e.time.IsZero() || t.Before(e.time) {
		e.time = t
	}
}

// held counts the rows that are known to wait, by destination and reason.
func (d *dispatch) held() map[*Destination]map[cause]int64 {
	held := map[*Destination]map[cause]int64{}
	for _, to := range d.destinations {
		held[to.Destination] = map[cause]int64{}
		if to.hold.active() {
			for i := range to.queues {
				held[to.Destination][to.hold.cause] += int64(to.queues[i].len())
			}
		}
	}
	for _, b := range d.blocks.byKey {
		held[b.destination.Destination][b.cause]++
	}
	return held
}

// blocked counts the keys that wait, given what held counted, and those that would because they have a failed row.
func (d *dispatch) blocked(held map[*Destination]map[cause]int64) int {
	if d.failures == nil {
		return len(d.blocks.byKey)
	}
	behind := 0
	for _, counts := range held {
		behind += int(counts[causeBehindFailed])
	}
	return len(d.blocks.byKey) - behind + max(behind, len(d.failures.known.heads))
}
