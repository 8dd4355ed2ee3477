package dispatch

import (
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
)

// failures knows which keys have a failed row, where a failed row blocks its key until the row is retried or discarded
// (BlockFailed). It learns of failed rows from the refusals that are written here, and from the table. The failed rows
// of new shards are read before any of their other rows is taken. Now and then the failed rows of all shards are read
// again, to find those that were retried or discarded. A nil failures knows of none.
//
// Only the dispatch touches it.
type failures struct {
	owned   owner.Set // shards that this replica owns
	checked owner.Set // owned shards whose failed rows are known
	known   failedKeys

	reading bool      // all failed rows are being read, in pages
	began   time.Time // when this read began
	begun   owner.Set // shards that have been owned since then
	after   outbox.Position
	found   failedKeys // rows found so far
	since   failedKeys // rows that failed here since it began or just before, or that a check has found
	spent   time.Duration
	asked   bool      // they are to be read again soon
	freed   time.Time // when keys last became free that could not all be named
	crowded bool      // not all keys could be named when all failed rows were last known
	waiting int       // number of keys whose pending rows were passed over

	ended time.Time // when the last page was read
	due   time.Time // when the next page is to be read

	// A refusal that the last owner of a shard had under way may be written after the failed rows were read. Until that
	// is impossible, pending rows that were read are taken only after a check: the rows that have failed since then are read. A
	// row that is missing among the pending rows is then found among the failed ones.
	afterwards bool
	checking   outbox.Position // where the next page of the check begins
	complete   time.Time       // when the last read of all failed rows began that has ended
	unsure     time.Time
}

const (
	failedPage   = 1000
	failedEvery  = time.Second     // while keys wait because of failed rows
	failedRarely = 5 * time.Second // while no failed row is known: another session may have written failed_at; at least, with many
	unsureFor    = 2 * StatementTimeout
	failedSoon   = 50 * time.Millisecond // after a hint
	freedRest    = 10 * time.Second      // shortest time between two restarts, by freed keys, of a tail scan that has not caught up
)

// NextFailed returns the read of failed rows to make now, if any.
func (d *Dispatch) NextFailed(now time.Time) (outbox.Query, bool) {
	f := d.Failures
	if f.Afterwards() && f.owned != (owner.Set{}) {
		return outbox.Query{
			After: f.checking, Back: now.Sub(f.complete) + unsureFor, Limit: failedPage, Shards: d.shards.queried(f.owned),
		}, true
	}
	q, ok := f.next(now)
	if !ok {
		return q, false
	}
	if q.After.IsZero() {
		d.blockAgain()
	}
	q.Shards = d.shards.queried(f.begun)
	return q, true
}

// own records the shards that this replica owns, and returns those whose rows may be taken.
func (f *failures) own(set owner.Set) owner.Set {
	if f == nil {
		return set
	}
	f.owned, f.begun, f.checked = set, f.begun.And(set), f.checked.And(set)
	return f.checked
}

// next returns the next page of all failed rows, if it is to be read now. Its shards are in begun.
func (f *failures) next(now time.Time) (outbox.Query, bool) {
	if due, ok := f.Due(); !ok || now.Before(due) {
		return outbox.Query{}, false
	}
	if !f.reading {
		f.reading, f.began, f.begun, f.spent = true, now, f.owned, 0
		f.after, f.found, f.since = outbox.Position{}, failedKeys{}, failedKeys{}
	}
	return outbox.Query{After: f.after, Limit: failedPage}, true
}

// Due returns when the next read is to be made, if any.
func (f *failures) Due() (due time.Time, ok bool) {
	switch {
	case f == nil || f.owned == (owner.Set{}):
		return due, false
	case f.Awaited():
		return f.ended, true
	default:
		return f.due, true
	}
}

// Awaited reports whether other rows must wait until the failed rows have been read.
func (f *failures) Awaited() bool { return f.checked != f.owned || f.afterwards }

// Afterwards reports whether the present page of pending rows still waits for a check.
func (f *failures) Afterwards() bool { return f != nil && f.afterwards }

// Check reports whether a page of pending rows is to be taken only after a check. If so, the check is due at once.
func (f *failures) Check(page outbox.Page, now time.Time) bool {
	if f == nil || len(page.Rows) == 0 || !now.Before(f.unsure) {
		return false
	}
	f.afterwards, f.checking = true, outbox.Position{}
	return true
}

// Ask makes the failed rows be read again soon, on a hint that rows have changed. If there are many failed rows, the hint has to
// come from a command that changes them (operated), and not from an insert.
func (f *failures) Ask(operated bool) {
	if f == nil || !operated && (f.known.empty() || f.many()) {
		return
	}
	if f.reading {
		f.asked = true // what has changed may have been read already
	} else if soon := f.ended.Add(f.soon()); soon.Before(f.due) {
		f.due = soon
	}
}

// many reports whether the failed rows take more than one read.
func (f *failures) many() bool { return len(f.known.heads) >= failedPage }

func (f *failures) soon() time.Duration { return max(failedSoon, feed.RestShare*f.spent) }

// rest returns the rest after all failed rows were read, which has freed a number of keys. What was read first may have changed
// since: with the first keys that are freed, others often are.
func (f *failures) rest(freed int) time.Duration {
	asked := f.asked
	f.asked = false
	switch least := feed.RestShare * f.spent; {
	case freed > 0 || asked:
		return f.soon()
	case f.known.empty():
		return failedRarely
	case f.many():
		return max(failedRarely, feed.RestAfter(len(f.known.heads)), least)
	default:
		return max(failedEvery, least)
	}
}

// fails notes that the last refusal of the key's row is to be written. The key is blocked from now on, since the write may
// be committed long before that is known here.
func (f *failures) fails(r *Row) {
	text := strings.Clone(r.ordering().text) // the text lies among the bytes of other rows
	f.known.add(text, low(r))
	if f.reading {
		f.since.add(text, low(r))
	}
}

// blockAgain keeps keys blocked through a read of all failed rows that begins while their failures are being written: it
// may miss these rows.
func (d *Dispatch) blockAgain() {
	for _, r := range d.inFlight {
		if r.blocks {
			d.Failures.fails(r)
		}
	}
}

// notFailed notes that a failure was not written, perhaps since another session has changed the row. The key waits until all
// failed rows have been read again.
func (f *failures) notFailed() { f.due, f.asked = f.ended, f.asked || f.reading }

// passOver passes a pending row over if a row of its key has failed, and reports whether it has.
func (f *failures) passOver(r *Row) bool {
	if !f.has(r) {
		return false
	}
	f.lower(r.ordering(), low(r))
	return true
}

// has reports whether a row with the same key has failed.
func (f *failures) has(r *Row) bool {
	if f == nil || f.known.empty() {
		return false
	}
	k := r.ordering()
	return !k.keyless && f.known.has(k)
}

// lower notes from which ordinal rows of a key with a failed row were passed over.
func (f *failures) lower(k key, at int64) {
	if h, one := f.known.heads[k.text]; one {
		if !h.waits {
			f.waiting++
		}
		f.known.heads[k.text] = failedHead{min(h.low, at), true}
	} else {
		f.known.least = min(f.known.least, at)
	}
}

// TakeFailed takes a page of failed rows. After the last page of all of them, keys that wait and no longer have a failed row are
// read again. A row that was retried, of keys that cannot be named, may be pending anywhere in the table, so the tail scan
// begins again: it must not meet the key's younger rows first. If rows are retried continuously, beginning again each
// time would keep a long tail scan from ever finishing. That is why such keys become free only now and then, or when the
// tail scan has caught up.
func (d *Dispatch) TakeFailed(page outbox.FailedPage, caughtUp bool, started, ended time.Time) {
	f := d.Failures
	took := ended.Sub(started)
	f.ended = ended
	if f.afterwards {
		f.takeCheck(page)
		return
	}
	f.spent += took
	for _, r := range page.Rows {
		f.found.add(r.Key, r.Ordinal)
	}
	if f.after = page.End; page.More {
		f.due = ended.Add(feed.RestShare * took)
		return
	}
	f.found.merge(f.since)
	if f.found.more.Lacks(f.known.more) {
		if caughtUp || ended.Sub(f.freed) >= freedRest {
			d.rewind, f.freed = true, ended
		} else {
			f.found.mergeMore(f.known)
		}
	}
	freed := d.freeFailed(ended)
	if f.begun.Without(f.checked) != (owner.Set{}) {
		f.unsure = ended.Add(unsureFor)
	}
	if f.found.more != nil && !f.crowded {
		d.Logger.Warn("more keys have failed rows than are remembered one by one; a few others may wait with them",
			"keys", len(f.found.heads))
	}
	f.crowded = f.found.more != nil
	f.known, f.checked, f.reading, f.complete = f.found, f.begun, false, f.began
	f.due = ended.Add(f.rest(freed))
}

// takeCheck takes a page of a check.
func (f *failures) takeCheck(page outbox.FailedPage) {
	for _, r := range page.Rows {
		f.known.add(r.Key, r.Ordinal)
		if f.reading {
			f.since.add(r.Key, r.Ordinal)
		}
	}
	f.checking, f.afterwards = page.End, page.More
}

// freeFailed makes a scan bring the rows of the keys that no longer have a failed row, keeps what is known of the others, and
// returns the number of the former.
func (d *Dispatch) freeFailed(now time.Time) (freed int) {
	f := d.Failures
	for text, h := range f.known.heads {
		k := key{text: text}
		switch found, still := f.found.heads[text]; {
		case still:
			f.found.heads[text] = failedHead{min(h.low, found.low), h.waits}
		case f.found.more.Has(k.Hash()):
			f.found.least = min(f.found.least, h.low)
		default:
			d.passKey(k, k.Hash(), noShard, min(h.low, nothing-1), now)
			freed++
		}
	}
	f.waiting = 0
	for _, h := range f.found.heads {
		if h.waits {
			f.waiting++
		}
	}
	return freed
}
