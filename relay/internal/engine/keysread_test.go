package engine

import (
	"fmt"
	"testing"
	"time"
)

// Rows that fill a read leave the other keys of the read out. Such a key is asked for again as it was, with few rows:
// if it asked for more each time, a few keys would fill each read, and the last key would wait for all rows of the
// others.
func TestKeysThatAReadLeavesOut(t *testing.T) {
	t.Parallel()
	const keys = 40
	s := aimed(func(s *sim) { s.slowKeys, s.limits.Bytes = true, 20_000 })
	s.broker.missing["t"] = true
	var heads []*simRow
	for n := range 50 * keys {
		r := s.add(fmt.Sprint("key", n%keys), "t", func(r *simRow) { r.size = 2000 })
		if n < keys {
			heads = append(heads, r)
		}
	}
	s.run(s.at + 5*time.Second)
	delete(s.broker.missing, "t")
	before := s.reads[Keys]
	last := func() *simRow {
		for _, r := range heads {
			if r.sent == 0 {
				return r
			}
		}
		return nil
	}
	for last() != nil && s.at < time.Hour {
		s.run(s.at + 100*ms)
	}
	if n := s.reads[Keys] - before; last() != nil || n > 60 {
		t.Errorf("%d reads until each key went on", n)
	}
	s.sound(t)
}

// A key is read on from where its last read ended, and a row that was committed late lies before that. What its writers
// write afterwards does not go before it.
func TestRowCommittedLateBeforeThePlaceOfAHotKey(t *testing.T) {
	t.Parallel()
	for n := range 120 { // whenever it ends
		exact := n%2 > 0
		s := aimed(func(s *sim) { s.took, s.exact, s.limits.Batch, s.limits.Poll = ms, exact, 10, time.Second })
		s.run(time.Second)
		x := &simTx{}
		late := s.insertIn(x, "k", nil)
		var moved []*simRow
		for i := range 60 {
			moved = append(moved, s.add("k", "t", func(r *simRow) {
				r.touched = true // by hand, so that the writer does not wait
				if i == 0 {
					r.refuse = 1 // closes the key, so that it is read on before the tail's next page
				}
			}))
		}
		s.until(t, func() bool { return moved[n/2].sent > 0 })
		s.table.end(x, true)
		last := s.add("k", "t", nil)
		s.until(t, func() bool { return last.first > 0 })
		if late.first == 0 || late.first > last.first {
			t.Errorf("exact %v, after %d rows: the late row is number %d, and the next one of its writers number %d",
				exact, n/2, late.first, last.first)
		}
		s.end(t)
	}
}

// Rows are committed while a read of their key is under way that has begun before, and dropped by the tail. The read
// brings everything that it saw, but the key stays closed.
func TestRowsCommittedDuringAReadOfTheirKey(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.slowKeys, s.limits.Poll = ms, true, 5*ms })
	s.add("k", "t", nil)
	s.run(time.Second)
	for range 10 {
		reads := s.reads[Keys]
		s.add("k", "t", func(r *simRow) { r.refuse = 1 })
		s.until(t, func() bool { return s.reads[Keys] > reads })
		s.run(s.at + 5*ms) // its snapshot is taken
		for range 20 {
			s.add("k", "t", nil)
			s.run(s.at + 20*ms)
		}
		s.until(t, func() bool { return len(s.table.rows) == 0 })
	}
	s.end(t)
}

// A key waits for a hold when a row of it fails, and tries the hold when that row was discarded and the list does not
// know it yet: all of its rows go.
func TestKeyThatTriesAHoldBeforeTheListUnblocksIt(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.block = ms, true })
	s.run(time.Second)
	e := s.replicas[0].e
	s.broker.missing["t"] = true
	s.add("first", "t", nil) // its key tries the hold
	due := func(at time.Duration) {
		for _, h := range e.holds.by {
			e.until(h.probe, h.cause, s.now().Add(at))
		}
	}
	s.add("k", "t", func(r *simRow) { r.unknown = 1 })
	for range 4 {
		s.add("k", "t", nil)
	}
	s.until(t, func() bool { return len(e.waits.by) > 0 })
	due(time.Hour)
	failed := s.add("k", "other", func(r *simRow) { r.touched = true })
	s.table.drop(failed)
	failed.status, s.table.failed[failed.id] = deleted, failed
	listed := e.failed.ended.Add(time.Second)
	s.until(t, func() bool { return e.failed.ended.After(listed) })
	delete(s.table.failed, failed.id) // discarded
	delete(s.broker.missing, "t")
	due(0)
	s.replicas[0].step()
	s.end(t)
}

// Where failed rows block their keys, the failed rows are listed each second, and not for each writer that rings.
func TestRingsDoNotListFailedRows(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.block = ms, true })
	s.run(time.Second)
	e := s.replicas[0].e
	before := e.failed.number
	for range 500 {
		s.run(s.at + 2*ms)
		e.Hint(false)
		s.replicas[0].step()
	}
	if lists := e.failed.number - before; lists > 2 {
		t.Errorf("%d lists in a second", lists)
	}
	s.sound(t)
}

// A row that fails blocks its key at once, and no read has to look whether the key has a failed row.
func TestFailedRowBlocksItsKeyWithoutARead(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.block = ms, true })
	const keys = 100
	for i := range keys {
		s.add(fmt.Sprint("k", i), "t", func(r *simRow) { r.permanent = true })
		s.add(fmt.Sprint("k", i), "t", nil)
	}
	s.run(10 * time.Second)
	if reads, waiting := s.reads[Keys], len(s.replicas[0].e.waits.by); reads > 0 || waiting != keys {
		t.Errorf("%d reads of keys, and %d keys wait", reads, waiting)
	}
	s.sound(t)
}

// Keys of a topic that is back do not wait for all keys of another topic that came back before, which are more than are
// read by themselves at a time.
func TestKeysOfTopicsThatAreBackTakeTurns(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.limits.Keys, s.limits.Waiting = ms, 20, 5000 })
	s.broker.missing["large"], s.broker.missing["small"] = true, true
	var large, small []*simRow
	for i := range 3000 {
		large = append(large, s.add(fmt.Sprint("large", i), "large", nil))
		if i < 5 {
			small = append(small, s.add(fmt.Sprint("small", i), "small", nil))
		}
	}
	s.run(s.at + 5*time.Second)
	sent := func(rows []*simRow) (n int) {
		for _, r := range rows {
			n += min(r.sent, 1)
		}
		return n
	}
	s.broker.slow = 50 * ms
	delete(s.broker.missing, "large")
	s.until(t, func() bool { return sent(large) > 10 })
	delete(s.broker.missing, "small")
	s.until(t, func() bool { return sent(small) == 5 })
	if n := sent(large); n > 2000 {
		t.Errorf("%d rows of the other topic went before", n)
	}
	s.end(t)
}

// Keys that a list has found blocked wait until a later list does not have them, and are not read meanwhile.
func TestListedKeysAreNotRead(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.block = ms, true })
	const keys = 100
	for i := range keys {
		failed := s.add(fmt.Sprint("k", i), "t", nil)
		s.table.drop(failed)
		failed.status, s.table.failed[failed.id] = deleted, failed
	}
	s.run(10 * time.Second)
	if reads, waiting := s.reads[Keys], len(s.replicas[0].e.waits.by); reads > 0 || waiting != keys {
		t.Errorf("%d reads of keys, and %d keys wait", reads, waiting)
	}
	s.sound(t)
}

// A large row of a closed key is read beside a steady flow that would fill all room, and the flow waits for it for a
// moment only, also where very many keys are in trouble, so that pauses are long.
func TestLargeRowOfAKeyBesideASteadyFlow(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.limits.Bytes = ms, 20_000 })
	for part := range simParts {
		s.broker.down[fmt.Sprint("dead/", part)] = true
	}
	for range 700 { // each rests in vain
		s.add("", "dead", nil)
		s.run(s.at + ms)
	}
	s.run(s.at + 10*time.Second)
	s.broker.slow = 300 * ms
	var large []*simRow
	for n := range 1500 {
		if n%300 == 0 {
			large = append(large, s.add(fmt.Sprint("large", n), "t", func(r *simRow) { r.size, r.refuse = 12_000, 1 }))
		}
		s.add("", "t", func(r *simRow) { r.size = 1000 })
		s.run(s.at + 20*ms)
	}
	for _, r := range large {
		if len(r.hands) == 1 || len(r.hands) > 1 && r.hands[1]-r.hands[0] > 3*time.Second {
			t.Errorf("%s was handed over at %v", r.id, r.hands)
		}
	}
	s.sound(t)
}

// A read of keys takes all of its kind that are due, however the times of the other kind lie between: on a machine,
// hardly any two are the same. In a simulation in which it ended at the first key of the other kind, refused rows of
// both kinds needed 29 seconds instead of one.
func TestReadTakesAllKeysOfItsKind(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.exact, s.delays = ms, true, true })
	s.run(time.Second)
	const keys = 100
	for i := range keys {
		s.add("", "t", func(r *simRow) {
			if r.refuse = 1; i%2 == 0 {
				r.available = s.at
			}
		})
	}
	e := s.replicas[0].e
	s.until(t, func() bool { return len(e.resting) == keys })
	var n [2]time.Duration
	for _, k := range e.keys {
		i := 0
		if k.due {
			i = 1
		}
		n[i] += 2
		e.until(k, causeOrder, s.now().Add(time.Second+n[i]+time.Duration(i)))
	}
	before := s.reads[Keys]
	s.until(t, func() bool { return len(s.table.rows) == 0 })
	if reads := s.reads[Keys] - before; reads > 4 {
		t.Errorf("%d reads of %d keys", reads, keys)
	}
	s.end(t)
}
