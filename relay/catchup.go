package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// catchup says what the catch-up scans have to bring: rows of keys that may go on, and rows without a key that were passed over. Scans
// follow each other, one at a time, and have numbers. Only the dispatch touches it.
type catchup struct {
	number uint32          // of the scan that is under way, or was last
	under  bool            // way
	low    int64           // from where the next one begins; [nothing] when none is needed
	others bool            // it has to bring more than the rows of the keys that wait for it
	at     outbox.Position // how far this one has come
}

// catchUp lets a key's rows be brought by the next scan. Until one has come by, the key stays closed to all other reads.
func (d *dispatch) catchUp(w *wait) {
	if w.delayed { // no scan brings it, and nothing waits behind it
		d.waits.remove(w)
		return
	}
	d.waits.enter(w, catching, causeOrder)
	w.covered, w.again, w.stopped, w.next, w.older = d.catch.number+1, false, false, nothing, false
	d.waits.heads(w, "")
	if !w.listed {
		w.listed = true
		d.waits.catching = append(d.waits.catching, w)
	}
	d.catch.low = min(d.catch.low, w.low)
}

// passOver notes that something of a key was passed over.
func (d *dispatch) passOver(w *wait, low int64) {
	switch {
	case d.catch.covers(w):
		w.again, w.next = true, min(w.next, low)
		d.void = true
	default:
		w.passed, w.low = true, min(w.low, low)
		if w.state == catching {
			d.catch.low = min(d.catch.low, low)
			d.void = true
		}
	}
}

// covers reports whether the scan that is under way brings the rows of w.
func (c *catchup) covers(w *wait) bool {
	return c.under && w.state == catching && w.covered == c.number
}

// goOn lets a key go on after its head is done.
func (d *dispatch) goOn(w *wait) {
	if w.passed {
		d.catchUp(w)
		return
	}
	d.waits.remove(w)
}

// wantOthers lets the next scan bring rows that are no waiting key's.
func (c *catchup) wantOthers(low int64) {
	if low != nothing {
		c.low, c.others = min(c.low, low), true
	}
}

// scanning notes that the next scan begins, and returns from where. With few keys it returns them: their rows alone are to be read.
func (d *dispatch) scanning() (low int64, keys []string) {
	c := &d.catch
	if low = c.low; !c.others && d.byKey {
		keys = d.fewKeys()
	}
	c.number++
	c.under, c.low, c.others, c.at = true, nothing, false, outbox.Position{}
	return low, keys
}

// fewKeys returns the keys that wait for a scan, nil if they are many, or not all known by name.
func (d *dispatch) fewKeys() (keys []string) {
	for _, w := range d.waits.catching {
		switch {
		case w.state != catching || w.covered == gone:
		case w.text == "" || len(keys) == fewKeys:
			return nil
		default:
			keys = append(keys, w.text)
		}
	}
	return keys
}

// fewKeys is how many keys are few.
const fewKeys = 64

// scanned notes that the scan has come to its end. A key of which nothing was passed over since it began is open again.
func (d *dispatch) scanned(now time.Time) (again int) {
	d.catch.under = false
	var left []*wait
	for _, w := range d.waits.catching {
		switch {
		case w.state != catching || w.covered == gone:
			w.listed = false
		case w.covered > d.catch.number:
			left = append(left, w)
		case w.again:
			again++
			w.low, w.covered, w.again, w.stopped, w.next = w.next, d.catch.number+1, false, false, nothing
			d.catch.low = min(d.catch.low, w.low)
			left = append(left, w)
		default:
			w.listed = false
			d.waits.remove(w)
		}
	}
	d.waits.catching = left
	d.closeUnmet(now)
	return again
}

// abandonScan notes that the scan will not come to its end. What it was to bring is the next one's.
func (d *dispatch) abandonScan(from int64) {
	if !d.catch.under {
		return
	}
	d.catch.under = false
	d.catch.wantOthers(from)
	for _, h := range d.holds.byFate {
		if h.open {
			h.opened = d.catch.number
		}
	}
	for _, w := range d.waits.catching {
		if w.state == catching && w.covered == d.catch.number {
			w.low, w.covered, w.again, w.stopped, w.next = min(w.low, w.next), d.catch.number+1, false, false, nothing
			d.catch.low = min(d.catch.low, w.low)
		}
	}
}

// walking notes that the walk begins at the very beginning of the table: it brings what scans were to bring.
func (d *dispatch) walking() {
	d.waits.free()
	d.catch.number++
	d.catch.under, d.catch.low, d.catch.others = false, nothing, false
}
