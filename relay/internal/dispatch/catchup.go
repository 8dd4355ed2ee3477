package dispatch

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// catchup is what the catch-up scans have to bring: rows of keys that may go on, and rows without a key that were
// passed over. Scans follow each other, one at a time, and are numbered. Only the dispatch touches it.
type catchup struct {
	number uint32          // number of the current scan, or of the last one
	under  bool            // a scan is under way
	low    int64           // where the next scan begins; [nothing] if none is needed
	others bool            // the next scan has to bring more than the rows of the keys that wait for it
	at     outbox.Position // where the current scan has come to
}

// ScanWanted reports whether there is anything to scan.
func (d *Dispatch) ScanWanted() bool { return d.catch.under || d.catch.low != nothing }

// ScanUnder reports whether a scan is under way.
func (d *Dispatch) ScanUnder() bool { return d.catch.under }

// TakeScan takes a page of the current scan and returns how many of its rows are new.
func (d *Dispatch) TakeScan(page outbox.Page, now time.Time) (taken int) {
	taken, _ = d.Take(page.Rows, fromScan, now)
	d.catch.at = page.End
	return taken
}

// catchUp makes the next scan bring a key's rows. Until that scan has passed, the key stays closed to all other reads.
func (d *Dispatch) catchUp(w *Wait) {
	if w.delayed { // no scan brings it, and nothing waits for it
		d.waits.remove(w)
		return
	}
	d.waits.enter(w, catching, causeOrder)
	w.older = false
	d.waits.heads(w, "")
	d.cover(w, w.low)
}

// cover makes the next scan bring a key's rows from an ordinal on.
func (d *Dispatch) cover(w *Wait, from int64) {
	w.low, w.covered, w.stopped, w.next = from, d.catch.number+1, false, nothing
	d.catch.low = min(d.catch.low, from)
}

// passOver notes that a row of a key was passed over.
func (d *Dispatch) passOver(w *Wait, low int64) {
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

// covers reports whether the current scan brings the rows of w.
func (c *catchup) covers(w *Wait) bool {
	return c.under && w.state == catching && w.covered == c.number
}

// goOn lets a key go on after its head is done.
func (d *Dispatch) goOn(w *Wait) {
	if w.passed() {
		d.catchUp(w)
		return
	}
	d.waits.remove(w)
}

// wantOthers makes the next scan bring rows that do not belong to a waiting key.
func (c *catchup) wantOthers(low int64) {
	if low != nothing {
		c.low, c.others = min(c.low, low), true
	}
}

// Scanning notes that the next scan begins, and returns where. If only few keys wait for it, it returns them: then only
// their rows need to be read.
func (d *Dispatch) Scanning() (low int64, keys []string) {
	c := &d.catch
	if low = c.low; !c.others && d.Table.KeyIndexed() {
		keys = d.fewKeys()
	}
	c.number++
	c.under, c.low, c.others, c.at = true, nothing, false, outbox.Position{}
	d.Late.Scanning()
	return low, keys
}

// fewKeys returns the keys that wait for a scan, or nil if they are many or some are not known by name.
func (d *Dispatch) fewKeys() (keys []string) {
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

// fewKeys is the largest number of keys that count as few.
const fewKeys = 64

// Scanned notes that the scan has reached its end. A key is open again if nothing of it was passed over since the scan
// began. It returns the number of the other keys of this scan, which the next scan brings.
func (d *Dispatch) Scanned(now time.Time) (again int) {
	d.catch.under = false
	defer d.dropVoid()
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
	d.CloseUnmet(now)
	return again
}

// AbandonScan notes that the scan will not reach its end. The next scan brings what this one was to bring.
func (d *Dispatch) AbandonScan(from int64) {
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

// Whole notes that the tail scan begins at the very beginning of the table. It brings what the catch-up scans were to bring.
func (d *Dispatch) Whole() {
	d.waits.free()
	d.catch.number++
	d.catch.under, d.catch.low, d.catch.others = false, nothing, false
}
