package relay

import (
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
	"github.com/outbox-relay/outbox-relay/relay/internal/keys"
)

// failures knows which keys have a failed row, where that blocks a key until the row is retried or discarded
// (OUTBOX_ON_FAILED=block). It learns of them from the refusals that are written here, and from the table: the
// failed rows of new shards are read before any of their rows is taken, and all of them again now and then, which
// is how it is found out that they were retried or discarded. nil knows of none.
//
// Only the dispatch touches it.
type failures struct {
	owned   owner.Set // shards that are ours
	checked owner.Set // those of them of whose failed rows we know
	known   failedKeys

	reading bool      // a read of all failed rows is under way, in pages
	begun   owner.Set // shards that have been ours since it began
	after   outbox.Position
	found   failedKeys // so far
	since   failedKeys // failed here since it began
	spent   time.Duration
	freed   time.Time // when keys came free last of which not all could be told
	waiting int       // keys of which pending rows were passed over

	ended time.Time // the last page
	due   time.Time // the next one

	// A refusal that the last owner of a shard had under way may be written after we looked. Until then, what is
	// read of pending rows is taken only when the failed rows have been read again afterwards: a row that is missing
	// among the pending ones is found among those.
	afterwards bool
	unsure     time.Time
}

const (
	failedPage   = 1000
	failedEvery  = time.Second     // while keys wait behind failed rows
	failedRarely = 5 * time.Second // while none is known: somebody else may have written failed_at
	unsureFor    = 2 * statementTimeout
	failedSoon   = 50 * time.Millisecond // after a hint
	freedRest    = 10 * time.Second      // for a walk that keys came free during
)

// own takes note of the shards that are ours, and returns those of which rows may be taken.
func (f *failures) own(set owner.Set) owner.Set {
	if f == nil {
		return set
	}
	f.owned, f.begun, f.checked = set, f.begun.And(set), f.checked.And(set)
	return f.checked
}

// next returns the read of failed rows to make now, if any; its shards are in begun.
func (f *failures) next(now time.Time) (outbox.Query, bool) {
	if due, ok := f.wait(); !ok || now.Before(due) {
		return outbox.Query{}, false
	}
	if !f.reading {
		f.reading, f.begun, f.spent = true, f.owned, 0
		f.after, f.found, f.since = outbox.Position{}, failedKeys{}, failedKeys{}
	}
	return outbox.Query{After: f.after, Limit: failedPage}, true
}

// wait returns when the next read is to be made, if any.
func (f *failures) wait() (due time.Time, ok bool) {
	switch {
	case f == nil || f.owned == (owner.Set{}):
		return due, false
	case f.awaited():
		return f.ended, true
	default:
		return f.due, true
	}
}

// awaited reports whether nothing flows before the failed rows have been read.
func (f *failures) awaited() bool { return f.checked != f.owned || f.afterwards }

// check reports whether a page of pending rows is to be taken only after the failed rows have been read again, and
// then lets that be done at once.
func (f *failures) check(page outbox.Page, now time.Time) bool {
	if f == nil || len(page.Rows) == 0 || !now.Before(f.unsure) {
		return false
	}
	f.afterwards, f.reading = true, false
	return true
}

// ask lets the failed rows be read again soon: there is a hint that something has changed.
func (f *failures) ask() {
	if f == nil || f.known.empty() || f.reading {
		return
	}
	if soon := f.ended.Add(max(failedSoon, feed.RestShare*f.spent)); soon.Before(f.due) {
		f.due = soon
	}
}

// failedHere notes that a refusal of the key's row was to be written as its last one. If somebody else has changed
// the row instead, its key waits until that is known.
func (f *failures) failedHere(r *row, written bool) {
	text := strings.Clone(r.ordering().text) // it lies among the bytes of other rows
	f.known.add(text, r.Position.Ordinal)
	if f.reading {
		f.since.add(text, r.Position.Ordinal)
	}
	if !written {
		f.due = f.ended
	}
}

// meets reports whether a pending row waits because a row of its key has failed, and notes that it was passed over.
func (f *failures) meets(r *row) bool {
	if !f.has(r) {
		return false
	}
	f.lower(r.ordering(), low(r))
	return true
}

// has reports whether a row of the row's key has failed.
func (f *failures) has(r *row) bool {
	if f == nil || f.known.empty() {
		return false
	}
	k := r.ordering()
	return !k.keyless && f.known.has(k)
}

// lower notes from where on rows of a key with a failed row were passed over.
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

// takeFailed takes a page of failed rows. After the last one the keys that wait and have none any more are read again.
// It reports whether keys are free now. A row that was retried may be pending anywhere in the table, so the walk begins anew:
// it must not meet the key's younger rows first. Who retries rows all the time must not keep a long walk from its end: then keys
// come free now and then only, or when it has caught up.
func (d *dispatch) takeFailed(page outbox.FailedPage, caughtUp bool, started, ended time.Time) (freed bool) {
	f := d.failures
	took := ended.Sub(started)
	f.spent += took
	f.ended = ended
	for _, r := range page.Rows {
		f.found.add(r.Key, r.Ordinal)
	}
	if f.after = page.End; page.More {
		f.due = ended.Add(feed.RestShare * took)
		return false
	}
	if f.found.more != nil && f.known.more == nil {
		d.logger.Warn("more keys have failed rows than are remembered one by one; a few others may wait with them", "keys", len(f.found.heads))
	}
	f.found.merge(f.since)
	if f.found.more.Lacks(f.known.more) {
		if caughtUp || ended.Sub(f.freed) >= freedRest {
			d.rewind = true
			freed, f.freed = true, ended
		} else {
			f.found.mergeMore(f.known)
		}
	}
	d.freeFailed(ended)
	if f.begun.Without(f.checked) != (owner.Set{}) {
		f.unsure = ended.Add(unsureFor)
	}
	f.known, f.checked, f.reading, f.afterwards = f.found, f.begun, false, false
	pause := failedEvery
	if f.known.empty() {
		pause = failedRarely
	}
	f.due = ended.Add(max(pause, feed.RestShare*f.spent))
	return freed
}

// freeFailed lets a scan bring the rows of the keys that have no failed row any more, and keeps what is known of the others.
func (d *dispatch) freeFailed(now time.Time) {
	f := d.failures
	for text, h := range f.known.heads {
		k := key{text: text}
		switch found, still := f.found.heads[text]; {
		case still:
			f.found.heads[text] = failedHead{min(h.low, found.low), h.waits}
		case f.found.more.Has(k.hash()):
			f.found.least = min(f.found.least, h.low)
		default:
			d.passKey(k, k.hash(), noShard, h.low, now)
		}
	}
	f.waiting = 0
	for _, h := range f.found.heads {
		if h.waits {
			f.waiting++
		}
	}
}

// failedHead is what is known of a key with a failed row.
type failedHead struct {
	low   int64 // the least ordinal of its failed rows, and of the pending ones that were passed over
	waits bool  // some were
}

// failedKeys is a set of keys with failed rows: the first of them one by one, the others in a fixed amount of memory.
type failedKeys struct {
	heads map[string]failedHead
	bytes int // of the keys in heads
	more  keys.Set
	least int64 // the smallest ordinal of those in more
}

func (s *failedKeys) empty() bool { return len(s.heads) == 0 && s.more == nil }

func (s *failedKeys) add(text string, ordinal int64) {
	head, known := s.heads[text]
	switch {
	case known:
		s.heads[text] = failedHead{min(head.low, ordinal), head.waits}
	case len(s.heads) < mostWaits && s.bytes+len(text) <= mostFailedBytes:
		if s.heads == nil {
			s.heads = map[string]failedHead{}
		}
		s.heads[text] = failedHead{low: ordinal}
		s.bytes += len(text)
	default:
		if s.more == nil {
			s.least = ordinal
		}
		s.more.Add(key{text: text}.hash())
		s.least = min(s.least, ordinal)
	}
}

// merge adds the keys of another set.
func (s *failedKeys) merge(other failedKeys) {
	for text, head := range other.heads {
		s.add(text, head.low)
	}
	s.mergeMore(other)
}

// mergeMore adds those of another set that are not known one by one.
func (s *failedKeys) mergeMore(other failedKeys) {
	if other.more == nil {
		return
	}
	if s.more == nil {
		s.least = other.least
	}
	s.more.Merge(other.more)
	s.least = min(s.least, other.least)
}

func (s *failedKeys) has(k key) bool {
	_, known := s.heads[k.text]
	return known || s.more.Has(k.hash())
}

// mostFailedBytes bounds the texts of keys with failed rows that are known one by one.
const mostFailedBytes = 16 << 20
