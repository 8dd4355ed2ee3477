package engine

import (
	"maps"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// blocked are the keys that have a failed row, where failed rows block their keys. They are listed from the table: to
// the end of the list before anything is read of shards that were gained, and then again and again, since other
// sessions retry and discard failed rows. Reads of keys say themselves whether a key has a failed row. Only hashes are
// kept.
type blocked struct {
	by     map[uint64]blocking
	at     outbox.Position
	on     bool
	number uint32    // of the present list, or the last one
	asked  bool      // as soon as possible
	first  uint64    // number of the first read of the present list
	began  uint64    // the same of the last complete list
	gained uint64    // number of the last read before shards were gained
	rows   int       // rows of the present list, or the last one
	ended  time.Time // end of the last list
}

// A blocking is a failed row's key.
type blocking struct {
	list  uint32 // the last list that has the key
	shard int16
}

func (b *blocked) has(key uint64) bool { _, has := b.by[key]; return has }

const (
	// A page of the list has listRows keys. Lists follow each other after listPause, so that a key whose failed row was
	// retried or discarded by a statement of somebody's own goes on after a second.
	listRows  = 1000
	listPause = time.Second
	// perFailed rows rest a list for each row that it has: at most a thousand of them are read in a second.
	perFailed = time.Millisecond
)

// ready reports whether a list has been read since shards were gained.
func (b *blocked) ready() bool { return b.began > b.gained }

// listDue returns when the next page of the list is to be read.
func (e *Engine) listDue() (at time.Time, ok bool) {
	b := &e.blocked
	switch {
	case !e.blocks:
		return at, false
	case b.on || b.asked || !b.ready():
		return at, true
	}
	return b.ended.Add(listPause + min(time.Duration(b.rows)*perFailed, time.Minute)), true
}

// readList returns the read of the next page.
func (e *Engine) readList() *Read {
	b := &e.blocked
	if !b.on {
		b.on, b.asked, b.at, b.first, b.rows = true, false, outbox.Position{}, e.reads.last+1, 0
		b.number++
	}
	r := &Read{Kind: Failed}
	r.do = fetch(&r.BlockedPage, Table.Blocked, outbox.BlockedQuery{
		After: b.at, Shards: e.shards.queried(), Rows: listRows,
	})
	return r
}

// listed takes a page of the list.
func (e *Engine) listed(r *Read, now time.Time) {
	b := &e.blocked
	page := &r.BlockedPage
	for _, key := range page.Keys {
		if !e.shards.active.Has(key.Shard) {
			continue
		}
		if !b.has(key.Hash) && e.waiting() >= e.Limits.Waiting {
			e.jam()
			continue
		}
		e.block(key.Hash, key.Shard)
	}
	b.at = page.End
	b.rows += len(page.Keys)
	if page.Full {
		return
	}
	b.on, b.began, b.ended = false, b.first, now
	// What the complete list does not have any more was retried or discarded. The key is closed first and read by
	// itself: its rows have waited, and the tail has passed them long ago.
	maps.DeleteFunc(b.by, func(key uint64, x blocking) bool {
		for _, due := range []bool{false, true} { // a failed row blocks the rows of its key whichever tail brings them
			name := nameOf(key, due)
			k := e.keys[name]
			if (!due || e.dueTail.due) && x.list < b.number && (k == nil || k.state == open) && !e.waits.has(name) {
				e.rest(e.keyOf(key, due, false, int(x.shard)), causeOrder, now)
			}
		}
		return x.list < b.number
	})
}

// block closes a key that has a failed row.
func (e *Engine) block(hash uint64, shard int) {
	e.blocked.by[hash] = blocking{e.blocked.number, int16(shard)}
	for _, due := range []bool{false, true} {
		if k := e.keys[nameOf(hash, due)]; k != nil && k.state != writing && k.state != waiting {
			e.shut(k, open)
			e.idle(k)
		}
	}
}
