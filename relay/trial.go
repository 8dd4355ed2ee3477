package relay

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// mostAsked is how many heads one read asks for.
const mostAsked = 500

// ask lets a key's head be read.
func (d *dispatch) ask(w *wait) {
	d.waits.enter(w, asked, w.cause)
	d.asking = append(d.asking, w)
}

// trials returns the keys whose heads are to be read now, at most n. Crowds whose time is over are left to the next scan.
func (d *dispatch) trials(n int, now time.Time) []*wait {
	d.asking = slices.DeleteFunc(d.asking, func(w *wait) bool { return w.state != asked }) // before some of them are asked again
	d.probe(now)
	for w, ok := d.waits.due.Past(now); ok; w, ok = d.waits.due.Past(now) {
		if w.headID == "" {
			d.scatter(now)
			continue
		}
		d.ask(w)
	}
	d.asking = slices.DeleteFunc(d.asking, func(w *wait) bool { return w.state != asked })
	n = min(n, mostAsked, len(d.asking))
	return d.asking[:n:n]
}

// nextTrial returns when there are heads to be read.
func (d *dispatch) nextTrial() (time.Time, bool) {
	var next earliest
	if len(d.asking) > 0 {
		return next.time, true
	}
	if len(d.waits.due) > 0 {
		next.consider(d.waits.due[0].due)
	}
	if len(d.holds.due) > 0 {
		next.consider(d.holds.due[0].until)
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

// busySoon is after what time a key is tried of which other rows are under way.
const busySoon = 2 * time.Millisecond

// takeTrials takes the heads that were read; more says that there was no room for all of them. What was not found has been relayed,
// discarded or changed by somebody else.
func (d *dispatch) takeTrials(waits []*wait, rows []outbox.Row, more bool, now time.Time) (taken int) {
	busy := d.underWay()
	for _, w := range waits {
		if _, is := busy[w.hash]; is && w.state == asked {
			d.later(w, now.Add(busySoon))
		}
	}
	taken, _ = d.take(rows, fromTrial, now)
	if more {
		d.notRead(waits, now)
		return taken
	}
	for _, w := range waits {
		if w.state == asked {
			d.headGone(w)
		}
	}
	return taken
}

// underWay returns the hashes of the keys of which rows are queued or on the wire.
func (d *dispatch) underWay() map[uint64]struct{} {
	busy := map[uint64]struct{}{}
	for i := range d.lanes {
		l := &d.lanes[i]
		for _, r := range l.rows[l.head:] {
			busy[r.hash] = struct{}{}
		}
		for _, r := range l.wire {
			busy[r.hash] = struct{}{}
		}
	}
	return busy
}

// headGone goes on with a key whose head is no longer there.
func (d *dispatch) headGone(w *wait) {
	if h := w.hold; h != nil {
		h.until = time.Time{}
	}
	if w.passed() {
		w.low = min(w.low, w.head)
	}
	d.goOn(w)
}

// later lets a head be read later.
func (d *dispatch) later(w *wait, due time.Time) {
	if h := w.hold; h != nil {
		d.waits.enter(w, held, w.cause)
		h.until = due
		d.holds.due.Set(h)
		return
	}
	d.waits.rest(w, w.cause, due)
}

// notRead lets heads be read again whose read has failed.
func (d *dispatch) notRead(waits []*wait, due time.Time) {
	for _, w := range waits {
		if w.state == asked {
			d.later(w, due)
		}
	}
}
