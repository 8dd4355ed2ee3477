package engine

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// Keys that have a failed row wait where failed rows block their keys, as keys of a hold do that never ends. They are
// listed from the table: to the end of the list before anything is read of shards that were gained, and then again and
// again, since other sessions retry and discard failed rows. The key of a row that has failed here waits at once. No
// other read looks for failed rows: beside 60,000 of them, and without an index by key, each read of keys took 20 to
// 70 ms longer when it did. So a row that somebody fails by hand blocks its key after the next list.
//
// A list takes turns with the tail, a thousand keys at a time, and rests in proportion to what it took: a key goes on
// some seconds after its row was retried by hand, and sooner after one of our own commands, which ring. The tail waits
// for the first list after shards were gained, or it would take rows behind a failed one.

const (
	// A page of the list has listRows keys. At a takeover, 100,000 failed rows are a hundred pages before the first
	// pending row is read. Lists follow each other after listPause, so that a key whose failed row was retried or
	// discarded by a statement of somebody's own goes on after a second.
	listRows  = 1000
	listPause = time.Second
)

// unlisted reports whether keys may be open although they have a failed row that blocks them: they are not listed yet,
// or there is no room to remember them. Neither the tail nor the sweep may bring their rows then.
func (e *Engine) unlisted() bool {
	return e.BlockFailed && (e.waits.jammed || e.failed.ended.IsZero())
}

// readList returns the read of the next page.
func (e *Engine) readList() *Read {
	e.failed.begins()
	return &Read{Kind: Failed, query: outbox.Query{
		After: e.failed.at, Shards: e.shards.queried(), Most: outbox.Most{Rows: listRows},
	}}
}

// listed takes a page of the list. Keys are blocked at once, whatever they waited for, and freed only at the list's
// end. One whose refusal is being written stays as it is until that is done: its failure may be what the list has seen.
func (e *Engine) listed(r *Read, took time.Duration, now time.Time) {
	p, blocked := &e.failed, e.waits.blocked
	p.took += took
	for i := range r.Page.Rows {
		row := &r.Page.Rows[i]
		p.at = row.Position
		w := e.waits.by[row.Hash]
		switch {
		case !e.shards.active.Has(row.Shard):
		case w.hold == blocked:
			w.met = p.number
			e.waits.by[row.Hash] = w
		default:
			if k := e.keyOf(row.Hash, false, false, row.Shard); k.state != writing {
				e.wait(k, blocked)
			}
		}
	}
	if r.Page.Full {
		return
	}
	p.on, p.ended = false, now
	// What the complete list does not have any more was retried or discarded. The tail has passed the key's rows long
	// ago, so it is read by itself.
	for _, key := range blocked.keys {
		if w := e.waits.by[key]; w.hold == blocked && w.met != p.number {
			e.resumes(key, now) // else there is no room, and the next list says it again
		}
	}
}
