package dispatch

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// shards are the shards that this replica relays, with the number of rows of each in flight. Only the dispatch touches
// them.
type shards struct {
	active   owner.Set // shards whose rows are taken
	reading  owner.Set // shards whose rows are taken from the current read: they have been active since it began
	inFlight []int
	leaving  map[int]time.Time // since when each of these shards is to be released
	since    []time.Time       // when this replica acquired each shard
}

func newShards(total int) shards {
	return shards{inFlight: make([]int, total), leaving: map[int]time.Time{}, since: make([]time.Time, total)}
}

// Follow records the shards to relay from now on, and the shards that are to be released. It returns the shards to be
// released that have nothing in flight any more.
func (d *Dispatch) Follow(owned, leaving owner.Set, now time.Time) (left owner.Set) {
	d.own(owned)
	d.limiter.Own(d.shards.active.Len(), now)
	return d.left(leaving, now)
}

// Relays reports whether this replica relays any shard.
func (d *Dispatch) Relays() bool { return d.shards.active != (owner.Set{}) }

// own records the shards to relay from now on. New shards are read from the beginning. Of a shard that is no longer
// relayed, only rows on the wire or accepted go on.
func (d *Dispatch) own(set owner.Set) {
	set = d.Failures.own(set)
	lost, won := d.shards.active.Without(set), set.Without(d.shards.active)
	if won != (owner.Set{}) {
		d.rewind = true
		for _, shard := range won.Shards() {
			d.shards.since[shard] = time.Now()
		}
	}
	d.shards.active = set
	d.shards.reading = d.shards.reading.Without(lost)
	if lost == (owner.Set{}) {
		return
	}
	d.leave(lost)
}

// leave forgets the rows of these shards that are neither on the wire nor accepted, and their waiting keys.
func (d *Dispatch) leave(lost owner.Set) {
	for i := range d.lanes {
		d.lanes[i].filter(func(r *Row) bool {
			if lost.Has(r.Shard) {
				d.forget(r)
			}
			return !lost.Has(r.Shard)
		})
		for _, r := range d.lanes[i].wire {
			r.left = r.left || lost.Has(r.Shard)
		}
	}
	for _, r := range d.failing.rows {
		r.left = r.left || lost.Has(r.Shard)
	}
	for _, w := range d.waits.byKey {
		switch {
		case w.shard == noShard || !lost.Has(w.shard):
		case w.state == writing:
			w.older = true // queued rows before the head are forgotten
		case w.trial == nil || !d.onWire(w.trial):
			d.waits.remove(w)
		}
	}
}

// left returns the leaving shards that have nothing in flight any more. No replica reads a shard that is leaving, so a
// single row that cannot be written must not keep it forever.
func (d *Dispatch) left(leaving owner.Set, now time.Time) owner.Set {
	for shard := range d.shards.leaving {
		if !leaving.Has(shard) {
			delete(d.shards.leaving, shard)
		}
	}
	if leaving == (owner.Set{}) {
		return leaving
	}
	var late, done owner.Set
	for _, shard := range leaving.Shards() {
		if since, ok := d.shards.leaving[shard]; !ok {
			d.shards.leaving[shard] = now
		} else if now.Sub(since) >= d.Limits.Patience {
			late.Add(shard)
		}
	}
	d.leave(leaving)
	d.letGo(leaving, late)
	for _, shard := range leaving.Shards() {
		if d.shards.inFlight[shard] == 0 {
			done.Add(shard)
		}
	}
	return done
}

// letGo forgets the rows of leaving shards that the database did not mark, and the rows of late shards that another
// session keeps locked. These rows are pending in the table, and the next owner publishes them again.
func (d *Dispatch) letGo(leaving, late owner.Set) {
	before := len(d.inFlight)
	without := func(rows []*Row, gone owner.Set) []*Row {
		return slices.DeleteFunc(rows, func(r *Row) bool {
			if gone.Has(r.Shard) {
				d.forget(r)
			}
			return gone.Has(r.Shard)
		})
	}
	d.rejected.rows, d.locked.accepted = without(d.rejected.rows, leaving), without(d.locked.accepted, late)
	d.locked.refused = slices.DeleteFunc(d.locked.refused, func(x Refusal) bool {
		if !late.Has(x.Row.Shard) {
			return false
		}
		if w := x.Row.wait; w.state != forgotten {
			d.waits.remove(w)
		}
		d.forget(x.Row)
		return true
	})
	if n := before - len(d.inFlight); n > 0 {
		d.Logger.Warn(
			"shards are released although the outcome of some of their rows could not be written; their next owner publishes these rows again",
			"rows", n)
	}
}

// Queried returns the relayed shards for a query, or nil for all.
func (d *Dispatch) Queried() []int { return d.shards.queried(d.shards.active) }

// queried returns shards for a query, or nil for all.
func (s *shards) queried(set owner.Set) []int {
	if set.Len() == len(s.inFlight) {
		return nil
	}
	return set.Shards()
}
