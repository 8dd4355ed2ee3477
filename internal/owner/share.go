package owner

import (
	"cmp"
	"slices"
	"time"
)

// locks is what one look at the server shows of all replicas of a group.
type locks struct {
	mine     Set        // shards that this session holds
	taken    Set        // shards that any replica holds
	joined   bool       // this session's own membership is there
	replicas int        // replicas like this one, itself included
	share    int        // how many shards this one should hold
	apart    bool       // this replica cannot publish, and another one can
	others   int        // other replicas, which never own shards beside this one
	foreign  membership // of one of the others that owns shards, 0 if there is none
}

// read interprets the locks of a group, whose rows are divided into a number of shards.
//
// All replicas that can publish, or all if none can, should hold the same number of shards. What is left over goes, one
// shard each, to those that hold the most now: so the fewest shards move, and every replica comes to the same result.
func (g *Group) read(replicas []Replica, shards int) (l locks) {
	var able, unable []Replica // like this one
	for _, r := range replicas {
		l.taken = l.taken.Or(r.Owned)
		if r.mine {
			l.mine, l.joined = r.Owned, r.membership != 0
		}
		switch {
		case r.membership == 0:
		case !r.like(g.shown):
			if l.others++; r.Owned != (Set{}) {
				l.foreign = r.membership
			}
		case r.Able():
			able = append(able, r)
		default:
			unable = append(unable, r)
		}
	}
	l.replicas = len(able) + len(unable)
	sharers := able
	if len(able) == 0 {
		sharers = unable
	}
	slices.SortFunc(sharers, mostFirst)
	if rank := slices.IndexFunc(sharers, func(r Replica) bool { return r.mine }); rank >= 0 {
		l.share = (shards + len(sharers) - 1 - rank) / len(sharers)
	} else {
		l.apart = l.joined
	}
	return l
}

// mostFirst orders replicas by the number of shards that they hold, those that hold the most first.
func mostFirst(a, b Replica) int {
	return cmp.Or(cmp.Compare(b.Owned.Len(), a.Owned.Len()), cmp.Compare(a.Backend, b.Backend))
}

// watch notes whether any replica relays a group that this one does not.
func (s *session) watch(g *Group, replicas []Replica) {
	members := 0
	for _, r := range replicas {
		if r.membership != 0 {
			members++
		}
	}
	unserved := s.lasts(g, members == 0)
	s.update(func() {
		g.state.Err, g.state.Replicas, g.state.Unowned, g.state.Unserved = nil, members, 0, time.Time{}
		if unserved {
			g.state.Unowned, g.state.Unserved = s.Shards, g.since
		}
	})
	if unserved && g.logged == "" {
		s.Logger.Warn("rows wait for a destination that no replica relays",
			"destinations", g.Name, "column", g.Column)
	}
	if g.logged = ""; unserved {
		g.logged = g.Name
	}
}

// unowned returns how many shards no replica holds, counted in the division of the replicas that own any.
func (l locks) unowned(shards int) int {
	if l.foreign != 0 {
		shards = l.foreign.Of()
	}
	return max(shards-l.taken.Len(), 0)
}

// wanted returns the free shards to try, in a session's order: see there.
func (l locks) wanted(order []int) []int {
	free := slices.DeleteFunc(slices.Clone(order), l.taken.Has)
	return free[:min(len(free), max(0, l.share-l.mine.Len()))]
}

// surplus returns the shards to release: the last ones in a session's order.
func (l locks) surplus(order []int) Set {
	var kept Set
	for _, shard := range order {
		if l.mine.Has(shard) && kept.Len() < l.share {
			kept.Add(shard)
		}
	}
	return l.mine.Without(kept)
}

// Patience is the multiple of the time to live after which a replica releases its shards to others although that has a
// price: when it cannot publish and another replica can, or when rows that it has published are locked. A broker's
// restart is over by then.
const Patience = 3

// lasts reports whether something that keeps rows of a group waiting has lasted longer than a restart takes.
func (s *session) lasts(g *Group, waiting bool) bool {
	switch {
	case !waiting:
		g.since = time.Time{}
	case g.since.IsZero():
		g.since = time.Now()
	}
	return waiting && time.Since(g.since) >= Patience*s.TTL
}
