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
	next   extent          // what the next scan has to bring
	extent extent          // what the current scan has to bring
	at     outbox.Position // where the current scan has come to
	vain   int             // rows that the current scan has read and not brought
	asked  int             // vain when ScanDone last went through the keys
	some   bool            // a page of some keys has been read
}

// extent says which rows a scan has to bring. Each extent includes those before it.
type extent uint8

const (
	ofKeys     extent = iota // the rows of the keys that wait for the scan
	andKeyless               // rows without a key
	whole                    // all rows: no page is of some keys
)

// ScanWanted reports whether there is anything to scan.
func (d *Dispatch) ScanWanted() bool { return d.catch.under || d.catch.low != nothing }

// ScanUnder reports whether a scan is under way.
func (d *Dispatch) ScanUnder() bool { return d.catch.under }

// TakeScan takes a page of the current scan and returns how many of its rows are new.
func (d *Dispatch) TakeScan(page outbox.Page, now time.Time) (taken int) {
	if len(page.Rows) > 0 {
		d.catch.at = page.End
	}
	taken, _ = d.Take(page.Rows, fromScan, now)
	d.catch.vain += len(page.Rows) - taken
	return taken
}

// ScanDone reports whether the current scan has nothing more to bring, before it has come to its end: all its keys have
// stopped, because a row of theirs was refused or was left to the next scan.
func (d *Dispatch) ScanDone() bool {
	c := &d.catch
	if c.extent != ofKeys || c.vain-c.asked <= len(d.waits.catching) { // going through the keys takes less time than the reads have taken
		return false
	}
	c.asked = c.vain
	for w := range d.waits.catching {
		if d.goes(w) {
			return false
		}
	}
	return true
}

// goes reports whether the current scan may bring further rows of a key.
func (d *Dispatch) goes(w *Wait) bool {
	c := &d.catch
	return c.covers(w) && !w.stopped && (c.at.IsZero() || c.at.Unordered() || w.next >= c.at.Ordinal)
}

// ScanKeys returns the keys whose rows the next page of the current scan has to bring, if they are few, and nil for all rows.
// null says that the page has to bring the rows without a key, too. With no keys and without those, the scan has nothing more to
// bring. ScanKeys reports false if the scan has to be given up: a page of all keys must not follow one of some, because it would
// bring rows of keys that do not wait, and older rows of these keys may lie in what was not read. The next scan is then whole.
// filter says whether the database may be made to look for rows to which no index leads.
func (d *Dispatch) ScanKeys(filter bool) (keys []string, null, ok bool) {
	c := &d.catch
	if keys, null = d.namedKeys(filter); c.some && keys == nil {
		c.extent = whole
		return nil, false, false
	}
	c.some = keys != nil
	return keys, null, true
}

// namedKeys returns the keys whose rows the next page has to bring, if they are few and their texts are known, whatever the page before it
// was. Looking for rows without an index is worthwhile once pages of others have come in vain: with one row in a page, 3,000 rows of 20
// keys of which one in 43 fails took 82 s when each scan read all rows to its end, and 8 s since. No index gives the rows without a key in
// table order.
func (d *Dispatch) namedKeys(filter bool) (keys []string, null bool) {
	c := &d.catch
	filter = filter && d.Table.KeyFiltered() && c.vain >= pagesInVain*d.Limits.Batch
	indexed := d.Table.KeyIndexed() && c.extent == ofKeys
	if c.extent == whole || len(d.waits.catching) > mostNamed || !filter && !indexed {
		return nil, false
	}
	keys, null = []string{}, c.extent == andKeyless
	for w := range d.waits.catching {
		switch {
		case !d.goes(w):
		case w.key.keyless:
			null = true
		case w.key.text == "" || len(keys) == fewKeys:
			return nil, false
		default:
			keys = append(keys, w.key.text)
		}
	}
	if null && !filter {
		return nil, false
	}
	return keys, null
}

const (
	// fewKeys is the largest number of keys that count as few.
	fewKeys = 64
	// pagesInVain is how many pages a scan reads in vain before the database is made to leave out other keys.
	pagesInVain = 2
)

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

// brought reports whether the current scan, which covers a row's key, is known to have come by the row, or begins after it.
func (d *Dispatch) brought(w *Wait, r *Row) bool {
	at := d.catch.at
	switch {
	case low(r) < w.low, r.scan == d.catch.number, r.metBy == d.catch.number:
		return true
	case at.IsZero():
		return false
	case at.Unordered() != r.Position.Unordered(): // rows without an order value come first
		return r.Position.Unordered()
	}
	return at == r.Position || d.Table.Before(r.Position, at)
}

// want makes the next scan bring rows from an ordinal on.
func (c *catchup) want(e extent, low int64) {
	if low != nothing {
		c.low, c.next = min(c.low, low), max(c.next, e)
	}
}

// Scanning notes that the next scan begins, and returns where.
func (d *Dispatch) Scanning() (low int64) {
	c := &d.catch
	low = c.low
	c.number++
	c.under, c.low, c.extent, c.next = true, nothing, c.next, ofKeys
	c.at, c.vain, c.asked, c.some = outbox.Position{}, 0, 0, false
	return low
}

// Scanned notes that the scan has reached its end. A key is open again if nothing of it was passed over since the scan
// began. It returns the number of the other keys of this scan, which the next scan brings.
func (d *Dispatch) Scanned(now time.Time) (again int) {
	beyond := d.beyondScan()
	d.catch.under = false
	defer d.dropVoid()
	for w := range d.waits.catching {
		switch {
		case w.covered > d.catch.number:
		case beyond[w]: // a crowd may have something for the next scan, too
			d.cover(w, min(w.low, w.next))
			d.void = true
		case w.next != nothing:
			again++
			d.cover(w, w.next)
			d.void = true
		default:
			d.waits.remove(w)
		}
	}
	d.CloseUnmet(now)
	return again
}

// beyondScan returns the keys that have a row on the wire, or one that is failing, to which the current scan has not come. A scan ends
// where the tail scan is, which may have begun again: such a row may come back, and must not go before one that was passed over between
// the two.
func (d *Dispatch) beyondScan() map[*Wait]bool {
	beyond := map[*Wait]bool{}
	look := func(r *Row) {
		if w := d.waits.meets(r); w != nil && d.catch.covers(w) && !d.brought(w, r) {
			beyond[w] = true
		}
	}
	for i := range d.lanes {
		for _, r := range d.lanes[i].wire {
			look(r)
		}
	}
	for _, r := range d.failing.rows {
		look(r)
	}
	return beyond
}

// AbandonScan notes that the scan will not reach its end. The next scan brings what this one was to bring.
func (d *Dispatch) AbandonScan(from int64) {
	d.catch.under = false
	d.catch.want(d.catch.extent, from)
	for _, h := range d.holds.byFate {
		if h.halfOpen {
			h.scan = d.catch.number
		}
	}
	for w := range d.waits.catching {
		if w.covered == d.catch.number {
			d.cover(w, min(w.low, w.next))
			d.void = true
		}
	}
	d.dropVoid()
}

// Whole notes that the tail scan begins at the very beginning of the table. It brings what the catch-up scans were to bring, but for
// keys with rows that are under way or failing: these may come back, and must not go before what was passed over.
func (d *Dispatch) Whole() {
	d.catch.number++
	d.catch.under, d.catch.low, d.catch.next = false, nothing, ofKeys
	busy := map[*Wait]bool{}
	for hash := range d.mayComeBack() {
		busy[d.waits.of(hash)] = true
	}
	for w := range d.waits.catching {
		if busy[w] {
			d.cover(w, min(w.low, w.next))
		} else {
			d.waits.remove(w)
		}
	}
}
