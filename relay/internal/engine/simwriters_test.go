package engine

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// draw draws an order value.
func (s *sim) draw(x *simTx) (order int64, drawn time.Duration) {
	t := s.table
	if s.cache {
		at := x.session
		if len(s.cached[at]) == 0 {
			for range 1 + s.IntN(20) {
				t.sequence++
				s.cached[at] = append(s.cached[at], t.sequence)
			}
			s.cachedAt[at] = s.at
		}
		order = s.cached[at][0]
		s.cached[at] = s.cached[at][1:]
		return order, s.cachedAt[at]
	}
	t.sequence++
	order = t.sequence
	if s.offset != 0 {
		if order += s.offset; order < 0 && s.offset > 0 {
			order = math.MaxInt64
		}
	}
	if s.unordered {
		return s.Int64N(1000), s.at
	}
	if s.ties > 1 {
		order = order / s.ties * s.ties
	}
	return order, s.at
}

// transaction begins a transaction that inserts rows and ends some time.
func (s *sim) transaction() {
	x := &simTx{}
	if s.cache {
		if len(s.free) == 0 {
			return
		}
		i := s.IntN(len(s.free))
		x.session = s.free[i]
		s.free = slices.Delete(s.free, i, i+1)
	}
	n := 1 + s.IntN(4)
	if s.bulk && s.one(15) {
		n = 20 + s.IntN(150)
	}
	var locked []string
	var at time.Duration
	s.open++
	one := s.one(3) // all rows of one key
	k := s.key()
	for range n {
		if !one {
			k = s.key()
		}
		key := k
		if s.one(12) && s.pause > 0 {
			at += s.upto(50 * ms)
		}
		if s.longEvery > 0 && s.one(s.longEvery*3) {
			at += s.upto(8 * time.Second)
		}
		s.after(at, func() {
			if key != "" && !s.unserialised && !slices.Contains(locked, key) {
				if s.locks[key] {
					return // another writer has it
				}
				s.locks[key] = true
				locked = append(locked, key)
			}
			order, drawn := s.draw(x)
			gap := time.Duration(0)
			if x.xid == 0 && s.one(3) {
				gap = s.upto(20 * ms)
				if s.one(10) || s.slowReads {
					gap = s.upto(700 * ms)
				}
				if s.stale && s.one(4) {
					gap = s.upto(15 * time.Second)
				}
			}
			x.busy++
			insert := func() {
				x.busy--
				s.insert(x, key, order, drawn)
			}
			if gap == 0 {
				insert()
				return
			}
			s.open++
			s.after(gap, func() { s.open--; insert() })
		})
	}
	end := at + s.upto(20*ms)
	if s.late && s.one(3) {
		end += s.upto(800 * ms)
	}
	if s.longEvery > 0 && s.one(s.longEvery) {
		end += s.upto(20 * time.Second)
	}
	var finish func()
	finish = func() {
		if x.busy > 0 {
			s.after(10*ms, finish)
			return
		}
		commit := !s.one(12)
		s.table.end(x, commit)
		s.logf("transaction %d ends: %v", x.xid, commit)
		for _, k := range locked {
			delete(s.locks, k)
		}
		s.open--
		if s.cache {
			s.free = append(s.free, x.session)
		}
	}
	s.after(end, finish)
}

// key chooses a key, or none.
func (s *sim) key() string {
	k := s.IntN(s.keys + 1 + s.keys/4)
	if k >= s.keys {
		return ""
	}
	if s.one(3) {
		k = 0 // a busy key
	}
	return fmt.Sprintf("key%d", k)
}

func (s *sim) insert(x *simTx, key string, order int64, drawn time.Duration) {
	if x.ended {
		return
	}
	t := s.table
	s.ids++
	r := &simRow{
		id: fmt.Sprintf("%s-%06d", key, s.ids), key: key, keyed: key != "", order: order, drawn: drawn, inserted: s.at, tx: x,
		attempt: 1,
		topic:   fmt.Sprintf("t%d", s.IntN(s.topics)), size: s.IntN(50),
	}
	if !r.keyed {
		r.id = fmt.Sprintf("row%06d", s.ids)
	}
	if s.large && s.one(8) {
		r.size = s.IntN(int(2 * s.limits.Bytes))
	}
	if s.delays && s.one(4) {
		r.available = s.at + s.upto(4*time.Second)
	}
	t.place(r)
	switch s.IntN(40) {
	case 0, 1:
		r.refuse = 1 + s.IntN(3)
	case 2:
		r.poison = true
	case 3:
		r.permanent = true
	case 4:
		if s.lost {
			r.unknown, r.arrives = 1+s.IntN(2), s.one(2)
		}
	}
	t.number(x)
	r.top, r.xmin = x.xid, x.xid
	undone := false
	if s.savepoints && s.one(2) {
		r.xmin = t.savepoint(x)
		undone = s.one(6)
	}
	s.logf("insert %s order %d in %d (writer %d, undone %v)", r.id, r.order, r.top, r.xmin, undone)
	t.byID[r.id] = r
	t.all = append(t.all, r)
	if undone {
		return
	}
	x.apply = append(x.apply, func() {
		r.committed, r.visible = s.at, true
		t.put(r)
		if s.second && s.one(2) { // another destination marks it
			s.after(s.upto(300*ms), func() {
				if r.status == pending && !r.locked {
					t.alone(func(xid uint64) { r.xmin = xid; r.version++ })
				}
			})
		}
	})
}

// update is an application's change of a pending row, which stays uncommitted for a time.
func (s *sim) update() {
	t := s.table
	if len(t.rows) == 0 {
		return
	}
	r := t.rows[s.IntN(len(t.rows))]
	if r.locked {
		return
	}
	remove := s.deletes && s.one(3)
	if !remove && !s.updates {
		return
	}
	x := &simTx{}
	n := t.number(x)
	if s.savepoints && s.one(2) {
		n = t.savepoint(x)
	}
	r.locked = true
	s.open++
	d := s.upto(10 * ms)
	if s.one(5) && !s.healed {
		d = s.upto(10 * time.Second)
	}
	s.after(d, func() {
		s.open--
		r.locked = false
		t.end(x, true)
		if r.status != pending { // a mark that does not wait for locks
			return
		}
		r.xmin = n
		r.version++
		if remove {
			r.status = deleted
			t.drop(r)
			s.logf("deleted %s", r.id)
		}
	})
}

// retry retries or discards one in so many failed rows.
func (s *sim) retry(oneIn int) {
	t := s.table
	var ids []string
	for id := range t.failed {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		r := t.failed[id]
		if !s.one(oneIn) || !s.block && s.healed {
			continue
		}
		delete(t.failed, id)
		r.spans[len(r.spans)-1].to = s.at
		t.alone(func(xid uint64) {
			if r.poison || r.permanent || s.one(3) {
				r.status = deleted
				return
			}
			r.status, r.attempt, r.xmin, r.retried = pending, 1, xid, true
			r.version++
			t.put(r)
		})
		s.logf("retry of %s", id)
	}
}

// byHand is what an application or a person does to rows at one moment, in a transaction of its own.
func (s *sim) byHand() {
	t := s.table
	what := s.hands[s.IntN(len(s.hands))]
	touch := func(r *simRow) {
		r.touched = true
		r.mayRepeat += 3
		r.version++
		s.logf("by hand: %s of %s (key %s order %d)", what, r.id, r.key, r.order)
	}
	switch what {
	case "setback":
		if s.one(20) {
			t.sequence = s.Int64N(t.sequence/2 + 1)
			s.logf("sequence set back to %d", t.sequence)
		}
		return
	case "replay":
		var done []*simRow
		for _, r := range t.all {
			if r.visible && r.status == relayed {
				done = append(done, r)
			}
		}
		if len(done) == 0 {
			return
		}
		r := done[s.IntN(len(done))]
		t.alone(func(xid uint64) {
			touch(r)
			r.status, r.attempt, r.xmin = pending, 1, xid
			t.put(r)
		})
		return
	}
	if len(t.rows) == 0 {
		return
	}
	r := t.rows[s.IntN(len(t.rows))]
	if s.one(2) { // rows in flight are the interesting ones
		for _, p := range s.replicas {
			for range 5 {
				if c := t.rows[s.IntN(len(t.rows))]; p.e.flying[c.id] != nil {
					r = c
					break
				}
			}
		}
	}
	if r.locked {
		return
	}
	t.alone(func(xid uint64) {
		t.drop(r)
		touch(r)
		r.xmin = xid
		s.change(r, what, xid)
		t.place(r)
		t.put(r)
	})
}

// change changes a row by hand.
func (s *sim) change(r *simRow, what string, xid uint64) {
	t := s.table
	switch what {
	case "key":
		r.key, r.keyed = fmt.Sprintf("key%d", s.IntN(s.keys)), true
		r.content++
	case "null":
		if r.keyed = !r.keyed; r.keyed {
			r.key = fmt.Sprintf("key%d", s.IntN(s.keys))
		} else {
			r.key = ""
		}
		r.content++
	case "topic":
		r.topic = fmt.Sprintf("t%d", s.IntN(s.topics))
		r.content++
	case "payload":
		r.content++
	case "back":
		if len(t.rows) > 0 && s.one(2) {
			r.order = min(r.order, t.rows[s.IntN(len(t.rows))].order)
		} else {
			r.order -= s.Int64N(50)
		}
	case "forward":
		if r.order = t.sequence + s.offset + s.Int64N(50); s.one(4) {
			r.order = 1 << 40
		}
	case "reinsert":
		r.top = xid
		r.order, r.drawn = s.draw(&simTx{})
		r.attempt = 1
		r.content++
	case "attempt":
		r.attempt = 1
	}
}
