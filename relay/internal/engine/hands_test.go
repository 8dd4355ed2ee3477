package engine

import (
	"testing"
	"time"
)

// moveTo moves a row to another key by hand.
func (s *sim) moveTo(key string, row *simRow) {
	s.table.alone(func(xid uint64) {
		row.key, row.xmin, row.touched = key, xid, true
		row.version, row.content = row.version+1, row.content+1
	})
}

// A row is moved to another key while its publisher has it. It goes under that key, before the younger rows of the key.
func TestRowMovedToAnotherKeyWhileItIsPublished(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took = ms })
	s.add("one", "t", nil)
	s.run(time.Second) // the first sweep is over, and would find it
	s.broker.slow = 20 * time.Second
	moved := s.add("one", "t", func(r *simRow) { r.refuse = 1 })
	s.until(t, func() bool { return len(moved.hands) > 0 })
	s.broker.slow = 0
	s.moveTo("two", moved)
	younger := s.add("two", "t", nil)
	s.until(t, func() bool { return younger.first > 0 })
	if younger.first < moved.first || moved.first == 0 {
		t.Error("the younger row has gone first")
	}
	s.end(t)
}

// The row's former key has its answer while the row is published under the other one. It is known there until then.
func TestMovedRowIsPublishedOnceMore(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.exact = ms, true })
	s.run(time.Second)
	s.broker.slow = 2 * time.Second
	moved := s.add("one", "t", nil)
	s.until(t, func() bool { return len(moved.hands) > 0 })
	s.broker.slow = 5 * time.Second
	s.moveTo("two", moved)
	s.until(t, func() bool { return moved.status == relayed })
	if s.run(s.at + 20*time.Second); len(moved.hands) != 2 {
		t.Errorf("it was handed over %d times", len(moved.hands))
	}
	s.end(t)
}

// Rows that are read by their available_at are made pending again by hand, where nobody tells and there are no other
// rows.
func TestDueRowMadePendingByHand(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.exact, s.delays = ms, true, true })
	row := s.add("", "t", func(r *simRow) { r.available = time.Second })
	s.run(2 * time.Second)
	s.table.alone(func(xid uint64) {
		row.status, row.xmin, row.version, row.touched = pending, xid, row.version+1, true
		s.table.put(row)
	})
	s.run(s.at + 6*time.Minute)
	s.end(t)
}

// The same, where the row comes first of its new key, and the rest of that key had been read before. Whatever a read
// brings behind such a row was not taken, and the next read does not begin after it.
func TestRowMovedToTheFrontOfAHotKeyWhileItIsPublished(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.exact = ms, true })
	s.run(time.Second)
	s.broker.slow = 20 * time.Second
	moved := s.add("one", "t", nil)
	s.until(t, func() bool { return len(moved.hands) > 0 })
	s.broker.slow = 0
	first := s.add("two", "t", func(r *simRow) { r.refuse = 2 })
	s.add("two", "t", nil)
	s.until(t, func() bool { return first.refused == 2 })
	s.moveTo("two", moved)
	s.end(t)
}

// A row is changed after it was published and before it is marked. It is published as it is now, and does not wait for
// a sweep.
func TestChangedRowIsPublishedAgainAtOnce(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.exact = ms, true })
	s.run(time.Second)
	p := s.replicas[0]
	p.settles = true
	row := s.add("k", "t", nil)
	s.until(t, func() bool { return row.sent > 0 && len(p.todo) > 0 })
	s.table.alone(func(xid uint64) {
		row.version, row.content, row.xmin, row.touched = row.version+1, row.content+1, xid, true
	})
	began := s.at
	p.settles = false
	p.step()
	s.until(t, func() bool { return row.status == relayed })
	if took := s.at - began; took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	s.end(t)
}

// The same, while the next rows of its key are read, after it. Nothing of the key is left to a sweep.
func TestRowChangedBehindTheReadOfItsKey(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.exact, s.slowKeys = ms, true, true })
	s.run(time.Second)
	p := s.replicas[0]
	p.e.sweep.ended = s.now().Add(time.Hour)
	first := s.add("k", "t", func(r *simRow) { r.refuse = 1 })
	for range 100 {
		s.add("k", "t", nil)
	}
	goesOn := false
	s.note = func(r *Read) { goesOn = goesOn || first.sent > 0 && r.Kind == Keys && r.query.Asks[0].From != nil }
	s.until(t, func() bool { return first.attempt == 2 })
	s.until(t, func() bool {
		p.settles = true // no mark is written before
		return goesOn
	})
	s.table.alone(func(xid uint64) {
		first.version, first.content, first.xmin, first.touched = first.version+1, first.content+1, xid, true
	})
	p.settles = false
	p.step()
	began := s.at
	s.until(t, func() bool { return first.status == relayed })
	if took := s.at - began; took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	s.end(t)
}

// A writer rings while a look is under way that does not see its row yet. The next look follows at once, although
// nothing would be read for an hour.
func TestRingWhileALookIsUnderWay(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.limits.Poll = 20*ms, time.Hour })
	p := s.replicas[0]
	p.e.sweep.ended = s.now().Add(1000 * time.Hour)
	ring := func() {
		p.e.Hint(false)
		p.step()
	}
	for n := range 25 {
		s.run(s.at + 4*time.Hour) // so that the tail rests for an hour
		ring()
		s.run(s.at + time.Duration(n)*ms)
		row := s.add("k", "t", nil)
		ring()
		if s.run(s.at + time.Second); row.sent == 0 {
			t.Errorf("a row that came %d ms after the look began was not found within a second", n)
		}
	}
	s.end(t)
}
