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
	w.older = false
	d.waits.heads(w, "")
	d.cover(w, w.low)
}

// cover lets the next scan bring a key's rows from there on.
func (d *dispatch) cover(w *wait, from int64) {
	w.low, w.covered, w.stopped, w.next = from, d.catch.number+1, false, nothing
	d.catch.low = min(d.catch.low, from)
}

// passOver notes that something of a key was passed over.
func (d *dispatch) passOver(w *wait, low int64) {
	switch {
	case d.catch.covers(w):
		w.next = min(w.next, low)
		d.void = true
	default:
		w.low = min(w.low, low)
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
	if w.passed() {
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
	if low = c.low; !c.others && d.table.KeyIndexed() {
		keys = d.fewKeys()
	}
	c.number++
	c.under, c.low, c.others, c.at = true, nothing, false, outbox.Position{}
	return low, keys
}

// fewKeys returns the keys that wait for a scan, nil if they are many, or not all known by name.
func (d *dispatch) fewKeys() (keys []string) {
	for w := range d.waits.catching {
		switch {
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
	for w := range d.waits.catching {
		switch {
		case w.covered > d.catch.number:
		case w.next != nothing:
			again++
			d.cover(w, w.next)
		default:
			d.waits.remove(w)
		}
	}
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
	for w := range d.waits.catching {
		if w.covered == d.catch.number {
			d.cover(w, min(w.low, w.next))
		}
	}
}

// walking notes that the walk begins at the very beginning of the table: it brings what scans were to bring.
func (d *dispatch) walking() {
	d.waits.free()
	d.catch.number++
	d.catch.under, d.catch.low, d.catch.others = false, nothing, false
}
