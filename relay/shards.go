package relay

import "github.com/outbox-relay/outbox-relay/owner"

// shards are the shards that this replica relays, and how many rows of each are in flight. Only the
// dispatch touches them.
type shards struct {
	total    int
	active   owner.Set // rows of these are taken
	reading  owner.Set // of these from the read that is under way: they were active when it began, and ever since
	inFlight []int
}

// own takes note of the shards to relay from now on. Those that are new are walked from the beginning. Of a shard
// that is no longer ours only what is on the wire or accepted goes on.
func (d *dispatch) own(set owner.Set) {
	set = d.failures.own(set)
	lost, won := d.shards.active.Without(set), set.Without(d.shards.active)
	if won != (owner.Set{}) {
		d.rewind = true
		d.metrics.tookOver(won.Len())
	}
	d.shards.active = set
	d.shards.reading = d.shards.reading.Without(lost)
	if lost == (owner.Set{}) {
		return
	}
	for _, to := range d.destinations {
		for i := range to.queues {
			to.queues[i].filter(func(r *row) bool {
				if lost.Has(r.Shard) {
					d.drop(r)
				}
				return !lost.Has(r.Shard)
			})
		}
	}
	d.unblock(lost)
}

// unblock forgets the blocked keys of shards that are no longer ours.
func (d *dispatch) unblock(lost owner.Set) {
	for _, b := range d.blocks.byKey {
		if lost.Has(b.shard) && b.phase != writing {
			d.blocks.remove(b)
		}
	}
}

// left returns those of the shards that have nothing in flight any more.
func (d *dispatch) left(leaving owner.Set) owner.Set {
	if leaving == (owner.Set{}) {
		return leaving
	}
	d.unblock(leaving)
	var done owner.Set
	for _, shard := range leaving.Shards() {
		if d.shards.inFlight[shard] == 0 {
			done.Add(shard)
		}
	}
	return done
}

// queried returns shards for a query, nil for all.
func (s *shards) queried(set owner.Set) []int {
	if set.Len() == s.total {
		return nil
	}
	return set.Shards()
}
