package owner

import (
	"math/rand/v2"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/setting"
)

// locks is what one look at the server shows of all replicas of a group.
type locks struct {
	mine     Set   // shards that this session holds
	taken    Set   // shards that any replica holds
	joined   bool  // this session's own membership is there
	able     bool  // the membership says that this replica can publish
	replicas int   // replicas of this replica's kind, itself included
	fit      int   // replicas of this kind that can publish
	others   int   // replicas of other kinds
	foreign  *kind // another kind that owns shards, nil if there is none
	most     int   // shards of the replica that holds the most
}

// lockRow is one advisory lock.
type lockRow struct {
	class  int32
	object uint32
	pid    int32
	mine   bool
}

// member returns the membership that the lock shows; ok is false for other locks.
func (r lockRow) member() (m membership, ok bool) {
	n := int32(r.object) // memberships have negative numbers, which the server shows as unsigned
	if n >= 0 {
		return m, false
	}
	return memberOf(int(-n)), true
}

// read interprets the locks of a part's group.
func (p *part) read(rows []lockRow) (l locks) {
	for _, r := range replicasOf(rows, p.class) {
		l.taken, l.most = l.taken.Or(r.Owned), max(l.most, r.Owned.Len())
		if r.mine {
			l.mine, l.joined, l.able = r.Owned, r.member, r.Able
		}
		switch {
		case r.member && r.kind == p.kind:
			l.replicas++
			if r.Able {
				l.fit++
			}
		case r.member:
			if l.others++; r.Owned != (Set{}) {
				l.foreign = &r.kind
			}
		}
	}
	return l
}

// note returns why this replica takes no shards of the group, for display; empty if it may.
func (l locks) note(p *part, names setting.Names) string {
	if l.foreign == nil {
		return ""
	}
	return p.kind.why(*l.foreign, names)
}

// lookAround notes which of the groups that this replica does not relay are relayed by another one.
func (s *session) lookAround(rows []lockRow) {
	served, sessions := map[int32]bool{}, map[int32]bool{}
	for _, row := range rows {
		if _, member := row.member(); member {
			served[row.class], sessions[row.pid] = true, true
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
		shards = l.foreign.shards
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

// wanted returns the free shards to try: first those that the replica owns of another group, since it can mark their
// rows for both at once. The others are in random order, so that replicas that look at the same time rarely try the
// same ones.
func (l locks) wanted(shards int, together Set) []int {
	free := All(shards).Without(l.taken).Without(together).Shards()
	rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	free = append(All(shards).Without(l.taken).And(together).Shards(), free...)
	return free[:min(len(free), max(0, l.share(shards)-l.mine.Len()))]
}

// surplus returns the shards to release, last those that the replica owns of another group.
func (l locks) surplus(shards int, together Set) Set {
	var s Set
	held := append(l.mine.And(together).Shards(), l.mine.Without(together).Shards()...)
	for _, shard := range held[min(len(held), l.share(shards)):] {
		s.Add(shard)
	}
	return s
}
