package engine

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"
)

// aimed begins a schedule in which nothing happens by chance but how long things take. It has one replica, and rows
// come only from [sim.add].
func aimed(change func(*sim)) *sim {
	s := newSim(1)
	s.limits = Limits{
		Batch: 50, Rows: 400, Bytes: 1 << 20, Keys: 1000, Waiting: 1000, Holds: 10,
		Poll: 50 * ms, Sweep: 5 * time.Second, Patience: 15 * time.Second,
	}
	s.shape = shape{took: 5 * ms}
	change(s)
	s.healed = true // no fault but those of the test
	s.replicas = []*simReplica{s.start(0)}
	for shard := range simShards {
		s.replicas[0].gain(shard)
	}
	return s
}

// add commits a row in a transaction of its own.
func (s *sim) add(key, topic string, change func(*simRow)) *simRow {
	x := &simTx{}
	r := s.insertIn(x, key, func(r *simRow) {
		if r.topic = topic; change != nil {
			change(r)
		}
	})
	s.table.end(x, true)
	return r
}

// insertIn inserts a row in a transaction.
func (s *sim) insertIn(x *simTx, key string, change func(*simRow)) *simRow {
	s.ids++
	r := &simRow{
		id: fmt.Sprintf("row%06d", s.ids), key: key, keyed: key != "", inserted: s.at, tx: x, attempt: 1, topic: "t",
	}
	r.order, r.drawn = s.draw(x)
	r.top = s.table.number(x)
	r.xmin = r.top
	if change != nil {
		change(r)
	}
	s.table.place(r)
	s.table.byID[r.id] = r
	s.table.all = append(s.table.all, r)
	x.apply = append(x.apply, func() {
		r.committed, r.visible = s.at, true
		s.table.put(r)
	})
	return r
}

// sound reports what went wrong in the schedule.
func (s *sim) sound(t *testing.T) {
	t.Helper()
	if len(s.faults) > 0 {
		t.Errorf("%d faults, the first: %s", len(s.faults), s.faults[0])
	}
}

// Rows that fill a read leave the other keys of the read out. Such a key is asked for again as it was, with few rows: if
// it asked for more each time, a few keys would fill each read, and the last key would wait for all rows of the others.
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

// Closed keys are bounded also where the reads of keys are slow and very many rows fail for good.
func TestFailedRowsWhileReadsOfKeysAreSlow(t *testing.T) {
	t.Parallel()
	for _, block := range []bool{false, true} {
		for _, keyed := range []bool{false, true} {
			s := aimed(func(s *sim) { s.slowKeys, s.block, s.limits.Keys, s.limits.Rows = true, block, 20, 40 })
			for n := range 1000 {
				key := ""
				if keyed {
					key = fmt.Sprint("key", n)
				}
				s.add(key, "t", func(r *simRow) { r.permanent = true })
			}
			for len(s.table.failed) < 1000 && s.at < 20*time.Minute {
				s.run(s.at + time.Second)
			}
			if n := len(s.table.failed); n < 1000 {
				t.Errorf("block %v, keyed %v: %d rows have failed", block, keyed, n)
			}
			s.sound(t)
		}
	}
}

// end lets everything be done, and checks what has become of the rows.
func (s *sim) end(t *testing.T) {
	t.Helper()
	s.run(s.at + time.Minute)
	s.check()
	s.sound(t)
}

// flying reports whether a row is in flight.
func (s *sim) flying(r *simRow) bool { return s.replicas[0].e.flying[r.id] != nil }

// until lets time pass until something has happened.
func (s *sim) until(t *testing.T, happened func() bool) {
	t.Helper()
	for limit := s.at + time.Hour; !happened(); {
		if s.run(s.at + time.Millisecond); s.at > limit {
			t.Fatal("it has not happened within an hour")
		}
	}
}

// A transaction draws an order value, writes for the first time within the time that is allowed for that, and commits
// much later. First pages begin after its row by then, and have to begin earlier: else the next row of its key goes
// first.
func TestOrderValueDrawnBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took = ms })
	flow := func(d time.Duration) {
		for until := s.at + d; s.at < until; s.run(s.at + 20*ms) {
			s.add("", "t", nil)
		}
	}
	flow(3 * time.Second)
	x := &simTx{}
	order, drawn := s.draw(x)
	flow(900 * ms)
	s.table.number(x)
	s.insertIn(x, "k", func(r *simRow) { r.order, r.drawn = order, drawn })
	flow(2 * time.Second)
	s.table.end(x, true)
	s.add("k", "t", nil)
	flow(2 * time.Second)
	s.end(t)
}

// A further page has a row that was written under a savepoint of a transaction whose other row the first page has
// passed. The number of the savepoint is not among those that were running.
func TestSavepointBetweenPages(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.limits.Batch = ms, 10 })
	s.add("", "t", nil)
	s.run(time.Second)
	x := &simTx{}
	s.insertIn(x, "k", nil)
	later := s.insertIn(x, "k", func(r *simRow) { r.xmin, r.order = s.table.savepoint(x), r.order+45 })
	bulk := &simTx{}
	var first *simRow
	for range 100 {
		if r := s.insertIn(bulk, "", nil); first == nil {
			first = r
		}
	}
	s.table.end(bulk, true)
	s.until(t, func() bool { return s.flying(first) })
	s.table.end(x, true)
	s.until(t, func() bool { return later.sent > 0 })
	s.end(t)
}

// A row is moved to another key while its publisher has it. The younger rows of that key wait for it, and are not read
// again and again meanwhile.
func TestRowMovedToAnotherKeyWhileItIsPublished(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took = ms })
	s.add("one", "t", nil)
	s.run(time.Second) // the first sweep is over, and would find it
	s.broker.slow = 20 * time.Second
	moved := s.add("one", "t", func(r *simRow) { r.refuse = 1 })
	s.until(t, func() bool { return len(moved.hands) > 0 })
	s.broker.slow = 0
	s.table.alone(func(xid uint64) {
		moved.key, moved.xmin, moved.touched = "two", xid, true
		moved.version, moved.content = moved.version+1, moved.content+1
	})
	younger := s.add("two", "t", nil)
	began, before := s.at, s.reads[Keys]
	s.until(t, func() bool { return younger.first > 0 })
	if younger.first < moved.first || moved.first == 0 {
		t.Error("the younger row has gone first")
	}
	if n, most := s.reads[Keys]-before, int((s.at-began)/(40*ms))+10; n > most {
		t.Errorf("%d reads of keys in %v", n, s.at-began)
	}
	s.end(t)
}

// Rows that are read by their available_at are made pending again by hand, where nobody tells and there are no other rows.
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

// A key is read on from where its last read ended, and a row that was committed late lies before that. What its writers
// write afterwards does not go before it.
func TestRowCommittedLateBeforeThePlaceOfAHotKey(t *testing.T) {
	t.Parallel()
	for _, exact := range []bool{false, true} {
		s := aimed(func(s *sim) { s.took, s.exact, s.limits.Rows, s.limits.Batch = ms, exact, 40, 10 })
		s.run(time.Second)
		x := &simTx{}
		late := s.insertIn(x, "k", nil)
		var moved []*simRow
		for range 60 { // by hand, so that the writer does not wait
			moved = append(moved, s.add("k", "t", func(r *simRow) { r.touched = true }))
		}
		s.until(t, func() bool { return moved[30].sent > 0 })
		s.table.end(x, true)
		last := s.add("k", "t", nil)
		s.until(t, func() bool { return last.first > 0 })
		if late.first == 0 || late.first > last.first {
			t.Errorf("exact %v: the late row is number %d, and the next one of its writers number %d", exact, late.first, last.first)
		}
		s.end(t)
	}
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
	s.table.alone(func(xid uint64) {
		moved.key, moved.xmin, moved.touched = "two", xid, true
		moved.version, moved.content = moved.version+1, moved.content+1
	})
	s.end(t)
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

// loses makes the replica give a shard away; it comes back with [simReplica.gain].
func (p *simReplica) loses(shard int) {
	p.owned.Remove(shard)
	p.step()
}

// A shard is lost and comes back while the refusal of a row is being written. The younger rows of its key wait.
func TestShardComesBackWhileARefusalIsWritten(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took = ms })
	p := s.replicas[0]
	p.settles = true // the settler is busy
	row := s.add("k", "t", func(r *simRow) { r.refuse = 1 })
	s.until(t, func() bool { return len(p.todo) > 0 })
	p.loses(row.shard)
	p.gain(row.shard)
	s.add("k", "t", nil)
	s.run(s.at + time.Second)
	p.settles = false
	p.step()
	s.end(t)
}

// The same, where another row of the key cannot be marked: the shard lets go of that one, and not of the refusal.
func TestShardComesBackWhileARefusalIsWrittenBesideAnUnwritableMark(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took = ms })
	p := s.replicas[0]
	guarded := s.add("k", "t", func(r *simRow) { r.guarded, r.mayRepeat = true, 1 })
	s.until(t, func() bool { return p.e.rejected.any() })
	row := s.add("k", "t", func(r *simRow) { r.refuse = 1 })
	p.settles = true // the settler is busy
	s.until(t, func() bool { return len(p.todo) > 0 })
	p.leaving[row.shard] = p
	p.loses(row.shard)
	delete(p.leaving, row.shard)
	p.gain(row.shard)
	s.add("k", "t", nil)
	s.run(s.at + time.Second)
	guarded.guarded, p.settles = false, false
	p.step()
	s.end(t)
}

// A shard is gained while a page is being read that does not have its rows.
func TestShardGainedDuringARead(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took = 20 * ms })
	s.run(time.Second)
	p := s.replicas[0]
	row := s.insertIn(&simTx{}, "k", nil) // places the key
	p.loses(row.shard)
	s.add("k", "t", nil)
	s.run(s.at + time.Second)
	reads := s.reads[Tail]
	for key := range 10 { // some of other shards move the cursor
		s.add(fmt.Sprint("other", key), "t", nil)
	}
	s.until(t, func() bool { return s.reads[Tail] > reads })
	p.e.sweep.ended = s.now() // none finds the row soon
	p.gain(row.shard)
	s.run(s.at + 100*ms)
	s.add("k", "t", nil)
	s.end(t)
}

// The number of keys that wait is bounded, and all of them go on in the end.
func TestMoreKeysThanCanWait(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.limits.Waiting, s.limits.Holds = ms, 10, 1 })
	s.broker.missing["gone"] = true
	for n := range 100 {
		s.add(fmt.Sprint("key", n), "gone", nil)
	}
	s.run(s.at + 10*time.Second)
	delete(s.broker.missing, "gone")
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

// A row is committed late, while a younger one of its key is queued: it goes first.
func TestLateRowBesideAQueuedOne(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took = ms })
	s.run(time.Second)
	s.broker.slow = 5 * time.Second
	first := s.add("k", "t", nil)
	s.until(t, func() bool { return len(first.hands) > 0 })
	s.broker.slow = 0
	s.table.sequence += 10
	younger := s.add("k", "t", nil)
	s.until(t, func() bool { return s.flying(younger) })
	s.add("k", "t", func(r *simRow) { r.order = younger.order - 5 })
	s.end(t)
}

// A key waits for a hold when a row of it fails, and tries the hold when that row was retried and the list does not know
// it yet. Rows that are read then are not dropped behind the place where the key is read on.
func TestKeyThatTriesAHoldBeforeTheListUnblocksIt(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.block = ms, true })
	s.run(time.Second)
	e := s.replicas[0].e
	s.broker.missing["t"] = true
	due := func(at time.Duration) {
		for _, h := range e.holds.by {
			h.due = s.now().Add(at)
			e.holds.due.Set(h)
		}
	}
	first := s.add("k", "t", func(r *simRow) { r.unknown = 1 })
	for range 4 {
		s.add("k", "t", nil)
	}
	s.until(t, func() bool { return len(e.waits.by) > 0 })
	due(time.Hour)
	failed := s.add("k", "other", func(r *simRow) { r.touched = true })
	s.table.drop(failed)
	failed.status, s.table.failed[failed.id] = deleted, failed
	s.until(t, func() bool { return e.blocked.has(s.table.hash(first)) })
	delete(s.table.failed, failed.id) // discarded
	delete(s.broker.missing, "t")
	due(0)
	s.replicas[0].step()
	s.end(t)
}

// A read that was given back is forgotten. A query refers to the snapshot of the one before it: with that snapshot's
// page, all pages that were ever read would stay in memory.
func TestReadsAreForgotten(t *testing.T) {
	t.Parallel()
	var reads []weak.Pointer[Read]
	s := aimed(func(s *sim) {
		s.note = func(r *Read) { reads = append(reads, weak.Make(r)) }
	})
	for n := range 200 {
		s.add(fmt.Sprint("key", n%7), "t", nil)
		s.run(s.at + 20*ms)
	}
	runtime.GC()
	left := 0
	for _, r := range reads {
		if r.Value() != nil {
			left++
		}
	}
	if len(reads) < 100 || left > 2 { // one is under way, and one may wait for its time to pass
		t.Errorf("%d of %d reads are in memory", left, len(reads))
	}
	runtime.KeepAlive(s)
	s.sound(t)
}

// A batch that is handed over again, after an outage for instance, is no more rows: the marks of as many as may be in flight
// are rehearsed.
func TestRowsThatAreHandedOverAgainAreNotProven(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.limits.Rows, s.limits.Batch = 40, 10 })
	s.run(time.Second)
	e := s.replicas[0].e
	for i := range 100 {
		s.add(fmt.Sprint("k", i), "t", nil)
	}
	some := slices.Repeat([]*Row{{}}, 10)
	for range 10 { // the loop asks for each batch that it hands over
		e.Rehearses(some)
	}
	marked := func() (n int) {
		for _, r := range s.table.all {
			if r.status == relayed {
				n++
			}
		}
		return n
	}
	s.until(t, func() bool { return marked() == 20 })
	if !e.Rehearses(some) {
		t.Error("20 rows are marked, and no mark is rehearsed any more")
	}
	s.until(t, func() bool { return marked() == 100 })
	if e.Rehearses([]*Row{{key: &key{}}}) {
		t.Error("marks are rehearsed for ever")
	}
	s.end(t)
}
