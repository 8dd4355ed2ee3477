package engine

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// aimed begins a schedule in which nothing happens by chance but how long things take. It has one replica, and rows
// come only from [sim.add].
func aimed(change func(*sim)) *sim {
	s := newSim(1)
	s.limits = Limits{
		Batch: 50, Rows: 400, Bytes: 1 << 20, Keys: 1000, Waiting: 1000,
		Poll: 50 * ms, Patience: 15 * time.Second,
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

// The number of keys that wait is bounded, and all of them go on in the end.
func TestMoreKeysThanCanWait(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took, s.limits.Waiting, s.limits.Keys = ms, 10, 8 })
	s.broker.missing["gone"] = true
	for n := range 100 {
		s.add(fmt.Sprint("key", n), "gone", nil)
	}
	s.run(s.at + 10*time.Second)
	delete(s.broker.missing, "gone")
	s.end(t)
}

// Rows without a key that wait for a topic are counted, and go on within a second of its return, together with a row
// that came later. Those for which there is no room go on after a sweep or two.
func TestRowsWithoutAKeyWait(t *testing.T) {
	t.Parallel()
	const rows = 300
	for waiting, held := range map[int]int64{2000: rows, 500: 100} {
		s := aimed(func(s *sim) { s.took, s.limits.Waiting = ms, waiting })
		s.broker.missing["gone"] = true
		for range rows {
			s.add("", "gone", nil)
		}
		s.run(s.at + 10*time.Second)
		if got := s.replicas[0].e.held[CauseTopology]; got < held || got > held+1 { // with the one that tries
			t.Errorf("%d rows are held, want %d", got, held)
		}
		delete(s.broker.missing, "gone")
		s.run(s.at + 2*time.Second)
		if left := int64(len(s.table.rows)); left > rows-held {
			t.Errorf("%d of %d rows are left, of which %d were remembered", left, rows, held)
		}
		s.end(t)
	}
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

// A batch that is handed over again, after an outage for instance, is no more rows: the marks of as many as may be in
// flight are rehearsed.
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

// A row that is locked for a moment makes no row of another key be rehearsed. One that stays locked does.
func TestLockedRowIsRehearsedAlone(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took = ms })
	s.run(time.Second)
	e := s.replicas[0].e
	e.unproven = 0
	others := []*Row{{key: &key{}}}
	e.outage.until = s.now().Add(time.Hour)
	for n := range lockedTries + 1 {
		s.add("k", "t", nil)
		s.until(t, func() bool { return e.queued > 0 })
		e.outage.until = time.Time{}
		batch := e.Batch(n > 0, s.now())
		if len(batch) == 0 {
			t.Fatal("the row is not tried")
		}
		batch[0].Unmarkable = fmt.Errorf("rehearse: %w", &pgconn.PgError{Code: "55P03"})
		e.outage.until = s.now().Add(time.Hour)
		e.Answers(batch, slices.Repeat([]error{publisher.ErrNotAttempted}, len(batch)), s.now())
		if got := e.Rehearses(others); got != (n == lockedTries) {
			t.Errorf("after %d tries, others are rehearsed: %v", n+1, got)
		}
	}
}

// A row that the database would not have marked is published later, when it would: no later answer is taken for that.
func TestRowIsUnmarkableForOneAnswer(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took = ms })
	s.run(time.Second)
	e := s.replicas[0].e
	answer := func(answers ...error) {
		t.Helper()
		e.outage.until = time.Time{}
		batch := e.Batch(false, s.now())
		if len(batch) != len(answers) {
			t.Fatalf("%d rows, and %d answers", len(batch), len(answers))
		}
		if len(batch) == 2 {
			batch[1].Unmarkable = outbox.ErrLocked
		}
		e.Answers(batch, answers, s.now())
	}
	e.outage.until = s.now().Add(time.Hour)
	s.add("k", "t", nil)
	s.add("k", "t", nil)
	s.until(t, func() bool { return e.queued == 2 })
	away := publisher.UnavailableError(publisher.ScopeDestination, "no connection", "the broker is away")
	answer(away, publisher.ErrNotAttempted)
	answer(nil)
	answer(publisher.ErrNotAttempted)
	if n := e.held[CauseMark]; n > 0 {
		t.Errorf("%d keys wait for a mark", n)
	}
}

// A tail whose page had nothing that can go, and came after the server was stuck for half a minute, does not rest as
// long again: rows that can go may be behind it.
func TestTailRestsBrieflyAfterAStuckPage(t *testing.T) {
	t.Parallel()
	h := newByHand(t, func(s *sim) { s.exact, s.limits.Rows, s.limits.Batch = true, 40, 10 })
	for range 50 {
		h.add("k", "missing", nil)
	}
	h.reads(Tail)
	batch, missing := h.Batch(false, h.now()), publisher.UnavailableError(publisher.ScopeTopic, "missing", "missing")
	h.Answers(batch, slices.Repeat([]error{missing}, len(batch)), h.now())
	h.run(h.at + 100*ms)
	h.Engine.reads.turn = kinds - 1 // the tail has its turn
	r := h.Next(h.now())
	for r.Do(t.Context(), StatementTimeout, h.table); r.Kind != Tail; r.Do(t.Context(), StatementTimeout, h.table) {
		h.Taken(r, time.Time{}, h.now())
		r = h.Next(h.now())
	}
	now := h.now().Add(30 * time.Second)
	h.Taken(r, time.Time{}, now)
	if rest := h.Engine.reads.rests[Tail].Sub(now); rest <= 0 || rest > time.Second {
		t.Errorf("it rests for %v", rest)
	}
}
