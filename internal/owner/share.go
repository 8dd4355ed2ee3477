package owner

import "math/rand/v2"

// locks is what one look at the server shows of all replicas.
type locks struct {
	mine     Set          // shards that this session holds
	taken    Set          // shards that any replica holds
	joined   bool         // this session's own membership is there
	able     bool         // the membership says that this replica can publish
	replicas int          // replicas of this replica's kind, itself included
	fit      int          // replicas of this kind that can publish
	others   map[kind]int // replicas of other kinds
	foreign  *kind        // another kind that owns shards, nil if there is none
	most     int          // shards of the replica that holds the most
}

// lockRow is one advisory lock of the table's class.
type lockRow struct {
	object uint32
	pid    int32
	mine   bool
}

// read interprets the locks, given this replica's kind.
func read(rows []lockRow, own kind) locks {
	l := locks{others: map[kind]int{}}
	kinds := map[int32]kind{}
	for _, row := range rows {
		if n := int32(row.object); n < 0 { // a membership, whose negative number the server shows as unsigned
			m := memberOf(int(-n))
			kinds[row.pid] = m.kind
			if m.kind != own {
				l.others[m.kind]++
				continue
			}
			l.replicas++
			if m.able {
				l.fit++
			}
			l.joined, l.able = l.joined || row.mine, l.able || row.mine && m.able
		}
	}
	held := map[int32]int{}
	for _, row := range rows {
		if row.object >= MaxShards {
			continue
		}
		held[row.pid]++
		l.most = max(l.most, held[row.pid])
		l.taken.Add(int(row.object))
		if row.mine {
			l.mine.Add(int(row.object))
		}
		if k, known := kinds[row.pid]; known && k != own && (l.foreign == nil || k.before(*l.foreign)) {
			l.foreign = &k
		}
	}
	return l
}

// strangers returns how many replicas of other kinds there are.
func (l locks) strangers() int {
	n := 0
	for _, replicas := range l.others {
		n += replicas
	}
	return n
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

// share is how many shards this replica should hold at most. Replicas that cannot publish get none, unless no replica can.
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

// wanted returns the free shards to try, in random order, so that replicas that look at the same time
// rarely try the same ones.
func (l locks) wanted(shards int) []int {
	free := All(shards).Without(l.taken).Shards()
	rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	return free[:min(len(free), max(0, l.share(shards)-l.mine.Len()))]
}

// surplus returns the shards to release.
func (l locks) surplus(shards int) Set {
	var s Set
	held := l.mine.Shards()
	for _, shard := range held[min(len(held), l.share(shards)):] {
		s.Add(shard)
	}
	return s
}
