package owner

import (
	"slices"
	"time"
)

// locks is what one look at the server shows of all replicas of a group.
type locks struct {
	mine     Set         // shards that this session holds
	taken    Set         // shards that any replica holds
	joined   bool        // this session's own membership is there
	able     bool        // the membership says that this replica can publish
	replicas int         // replicas like this one, itself included
	fit      int         // those of them that can publish
	others   int         // other replicas, which never own shards beside this one
	foreign  *membership // of one of the others that owns shards, nil if there is none
	most     int         // shards of the replica that holds the most
}

// read interprets the locks of a group.
func (g *Group) read(replicas []Replica) (l locks) {
	for _, r := range replicas {
		l.taken, l.most = l.taken.Or(r.Owned), max(l.most, r.Owned.Len())
		if r.mine {
			l.mine, l.joined, l.able = r.Owned, r.member, r.Able
		}
		switch {
		case r.member && r.like(g.shown):
			l.replicas++
			if r.Able {
				l.fit++
			}
		case r.member:
			if l.others++; r.Owned != (Set{}) {
				l.foreign = &r.membership
			}
		}
	}
	return l
}

// lookAround counts the replicas, and notes which of the groups that this one does not relay are relayed by another.
func (s *session) lookAround(found map[int32][]Replica) {
	sessions, served := map[int32]bool{}, map[int32]bool{}
	for class, replicas := range found {
		for _, r := range replicas {
			if r.member {
				sessions[r.Backend], served[class] = true, true
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = len(sessions)
	for i := range s.strangers {
		other := &s.strangers[i]
		switch {
		case served[classOf(s.table, other.Column)]:
			if other.unserved {
				s.Logger.Info("a replica relays the other destination of the table", "destinations", other.Name)
			}
			other.Since, other.unserved = time.Time{}, false
		case other.Since.IsZero():
			other.Since = time.Now()
		case !other.unserved && time.Since(other.Since) >= Patience*s.TTL:
			other.unserved = true
			s.Logger.Warn("rows wait for a destination that no replica relays",
				"destinations", other.Name, "column", other.Column)
			s.notify()
		}
	}
}

// unowned returns how many shards no replica holds, counted in the division of the replicas that own any.
func (l locks) unowned(shards int) int {
	if l.foreign != nil {
		shards = l.foreign.Of
	}
	return max(shards-l.taken.Len(), 0)
}

// apart reports whether this replica cannot publish while another one can.
func (l locks) apart() bool { return !l.able && l.fit > 0 }

// share is how many shards this replica should hold at most. Replicas that cannot publish get none, unless no replica
// can.
func (l locks) share(shards int) int {
	switch {
	case l.apart():
		return 0
	case l.fit > 0:
		return fair(shards, l.fit)
	default:
		return fair(shards, l.replicas)
	}
}

// fair is how many shards each replica should hold at most.
func fair(shards, replicas int) int { return (shards + max(replicas, 1) - 1) / max(replicas, 1) }

// wanted returns the free shards to try, in a session's order: see there.
func (l locks) wanted(order []int) []int {
	free := slices.DeleteFunc(slices.Clone(order), l.taken.Has)
	return free[:min(len(free), max(0, l.share(len(order))-l.mine.Len()))]
}

// surplus returns the shards to release: the last ones in a session's order.
func (l locks) surplus(order []int) (s Set) {
	held := slices.DeleteFunc(slices.Clone(order), func(shard int) bool { return !l.mine.Has(shard) })
	for _, shard := range held[min(len(held), l.share(len(order))):] {
		s.Add(shard)
	}
	return s
}

// Patience is the multiple of the time to live after which a replica releases its shards to others although that has a
// price: when it cannot publish and another replica can, or when rows that it has published are locked. A broker's
// restart is over by then.
const Patience = 3

// mayGive reports whether shards beyond this replica's share are to be released now.
func (s *session) mayGive(g *Group, l locks) bool {
	if !l.apart() {
		g.apart = time.Time{}
		return true
	}
	if g.apart.IsZero() {
		g.apart = time.Now()
	}
	return time.Since(g.apart) >= Patience*s.TTL
}
