package owner

import (
	"cmp"
	"slices"
	"time"
)

// locks is what one look at the server shows of all replicas of a group.
type locks struct {
	mine     Set         // shards that this session holds
	taken    Set         // shards that any replica holds
	joined   bool        // this session's own membership is there
	replicas int         // replicas like this one, itself included
	share    int         // how many shards this one should hold
	apart    bool        // this replica cannot publish, and another one can
	others   int         // other replicas, which never own shards beside this one
	foreign  *membership // of one of the others that owns shards, nil if there is none
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
			l.mine, l.joined = r.Owned, r.member
		}
		switch {
		case r.member && r.like(g.shown) && r.Able:
			able = append(able, r)
		case r.member && r.like(g.shown):
			unable = append(unable, r)
		case r.member:
			if l.others++; r.Owned != (Set{}) {
				l.foreign = &r.membership
			}
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

// lookAround counts the replicas, and notes which of the watched groups are relayed by another one.
func (s *session) lookAround(found map[int32][]Replica) {
	sessions, served := map[int32]bool{}, map[int32]bool{}
	for class, replicas := range found {
		for _, r := range replicas {
			if r.member {
				sessions[r.Backend], served[class] = true, true
			}
		}
	}
	s.update(func() { s.replicas = len(sessions) })
	for _, g := range s.groups {
		if g.Mapping == "" {
			s.watch(g, served[g.class])
		}
	}
}

// watch notes whether any replica relays a group that this one does not.
func (s *session) watch(g *Group, served bool) {
	unserved, told := s.lasts(g, !served), g.logged != ""
	s.update(func() {
		g.state.Err, g.state.Unowned, g.state.Unserved = nil, 0, time.Time{}
		if unserved {
			g.state.Unowned, g.state.Unserved = s.Shards, g.since
		}
	})
	switch {
	case unserved && !told:
		g.logged = g.Name
		s.Logger.Warn("rows wait for a destination that no replica relays",
			"destinations", g.Name, "column", g.Column)
	case !unserved && told:
		g.logged = ""
		s.Logger.Info("a replica relays the other destination of the table", "destinations", g.Name)
	}
}

// unowned returns how many shards no replica holds, counted in the division of the replicas that own any.
func (l locks) unowned(shards int) int {
	if l.foreign != nil {
		shards = l.foreign.Of
	}
	return max(shards-l.taken.Len(), 0)
}

// wanted returns the free shards to try, in a session's order: see there.
func (l locks) wanted(order []int) []int {
	free := slices.DeleteFunc(slices.Clone(order), l.taken.Has)
	return free[:min(len(free), max(0, l.share-l.mine.Len()))]
}

// surplus returns the shards to release: the last ones in a session's order.
func (l locks) surplus(order []int) (s Set) {
	held := slices.DeleteFunc(slices.Clone(order), func(shard int) bool { return !l.mine.Has(shard) })
	for _, shard := range held[min(len(held), l.share):] {
		s.Add(shard)
	}
	return s
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
