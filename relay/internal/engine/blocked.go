package engine

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// blocked are the keys that have a failed row, where failed rows block their keys. They are listed from the table: to
// the end of the list before anything is read of shards that were gained, and then again and again, since other
// sessions retry and discard failed rows. Reads of keys say themselves whether a key has a failed row. Only hashes are
// kept.
//
// A list takes turns with the tail, a thousand keys at a time, and rests in proportion to what it took: a key goes on
// some seconds after its row was retried by hand, and sooner after one of our own commands, which ring. The tail waits
// for the first list after shards were gained, or it would take rows behind a failed one.
//
// Of a key in by nothing is queued, whatever its state says.
type blocked struct {
	pass                     // over the failed rows, by failed_at and id
	by      map[uint64]int16 // their shards
	next    map[uint64]int16 // those of the present list, and those that were blocked since it began
	current bool             // a list has been read to its end since shards were gained
}

func (b *blocked) has(key uint64) bool { _, has := b.by[key]; return has }

const (
	// A page of the list has listRows keys. Lists follow each other after listPause, so that a key whose failed row was
	// retried or discarded by a statement of somebody's own goes on after a second.
	listRows  = 1000
	listPause = time.Second
)

// listDue returns when the next page of the list is to be read. At a takeover, 100,000 failed rows are a hundred pages
// before the first pending row is read.
func (e *Engine) listDue() (at time.Time, ok bool) {
	b := &e.blocked
	switch {
	case !e.BlockFailed:
		return at, false
	case !b.current:
		return at, true
	}
	return b.due(listPause), true
}

// readList returns the read of the next page.
func (e *Engine) readList() *Read {
	b := &e.blocked
	if b.begins() {
		b.next = map[uint64]int16{}
	}
	return &Read{Kind: Failed, query: outbox.Query{
		After: b.at, Shards: e.shards.queried(), Most: outbox.Most{Rows: listRows},
	}}
}

// listed takes a page of the list. Keys are blocked at once, and freed only at the list's end. If there is no room to
// remember a failed row's key, the tail stops (jam), as it does for keys that wait.
func (e *Engine) listed(r *Read, took time.Duration, now time.Time) {
	b := &e.blocked
	b.took += took
	page := &r.Page
	for i := range page.Rows {
		key := &page.Rows[i]
		b.at = key.Position
		if !e.shards.active.Has(key.Shard) {
			continue
		}
		if !b.has(key.Hash) && e.waiting() >= e.Limits.Waiting {
			e.jam()
			continue
		}
		e.block(key.Hash, key.Shard)
	}
	if page.Full {
		return
	}
	was := b.by
	b.by, b.next, b.current = b.next, nil, true
	b.on, b.ended = false, now
	// What the complete list does not have any more was retried or discarded. The key is closed first and read by
	// itself: its rows have waited, and the tail has passed them long ago.
	for key, shard := range was {
		if k := e.keys[key]; !b.has(key) && (k == nil || k.state == open) && !e.waits.has(key) {
			e.rest(e.keyOf(key, false, false, int(shard)), causeOrder, now)
		}
	}
}

// block notes that a key has a failed row, and forgets what is queued of it. A key whose refusal is being written stays
// as it is until that is done: its failure may be what the list has seen. One that waits for a hold or for room goes on
// waiting, and is found blocked when it is read.
func (e *Engine) block(hash uint64, shard int) {
	e.blocked.by[hash] = int16(shard)
	if e.blocked.next != nil {
		e.blocked.next[hash] = int16(shard)
	}
	if k := e.keys[hash]; k != nil && k.state != writing && k.state != waiting {
		e.shut(k, open)
		e.idle(k)
	}
}
