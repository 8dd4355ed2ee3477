package relay

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// shards are the shards that this replica relays, and how many rows of each are in flight. Only the
// dispatch touches them.
type shards struct {
	active   owner.Set // rows of these are taken
	reading  owner.Set // of these from the read that is under way: they were active when it began, and ever since
	inFlight []int
	leaving  map[int]time.Time // since when these are to be given back
	since    []time.Time       // when each came to us
}

func newShards(total int) shards {
	return shards{inFlight: make([]int, total), leaving: map[int]time.Time{}, since: make([]time.Time, total)}
}

// own takes note of the shards to relay from now on. Those that are new are walked from the beginning. Of a shard
// that is no longer ours only what is on the wire or accepted goes on.
func (d *dispatch) own(set owner.Set) {
	set = d.failures.own(set)
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

// leave forgets what of these shards is neither on the wire nor accepted, and the keys that wait.
func (d *dispatch) leave(lost owner.Set) {
	for i := range d.lanes {
		d.lanes[i].filter(func(r *row) bool {
			if lost.Has(r.Shard) {
				d.forget(r)
			}
			return !lost.Has(r.Shard)
		})
	}
	for _, w := range d.waits.byKey {
		if w.shard != noShard && lost.Has(w.shard) && w.state != writing && (w.trial == nil || !d.onWire(w.trial)) {
			d.waits.remove(w)
		}
	}
}

// left returns those of the shards that have nothing in flight any more. Nobody reads a shard that is leaving, so one row that
// cannot be written must not keep it for ever.
func (d *dispatch) left(leaving owner.Set, now time.Time) owner.Set {
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
		} else if now.Sub(since) >= d.limits.patience {
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

// letGo forgets the rows of shards that are leaving which the database would not mark, and those of the late ones which
// somebody keeps locked. They are pending in the table, and the next owner publishes them again.
func (d *dispatch) letGo(leaving, late owner.Set) {
	before := len(d.inFlight)
	d.rejected.rows = slices.DeleteFunc(d.rejected.rows, func(r *row) bool {
		if leaving.Has(r.Shard) {
			d.forget(r)
		}
		return leaving.Has(r.Shard)
	})
	d.locked.accepted = slices.DeleteFunc(d.locked.accepted, func(r *row) bool {
		if late.Has(r.Shard) {
			d.forget(r)
		}
		return late.Has(r.Shard)
	})
	d.locked.refused = slices.DeleteFunc(d.locked.refused, func(x refusal) bool {
		if !late.Has(x.row.Shard) {
			return false
		}
		if w := x.row.wait; w.state != forgotten {
			d.waits.remove(w)
		}
		d.forget(x.row)
		return true
	})
	if n := before - len(d.inFlight); n > 0 {
		d.logger.Warn("shards are given back although the outcome of some of their rows could not be written; their next owner publishes these rows again", "rows", n)
	}
}

// queried returns shards for a query, nil for all.
func (s *shards) queried(set owner.Set) []int {
	if set.Len() == len(s.inFlight) {
		return nil
	}
	return set.Shards()
}
