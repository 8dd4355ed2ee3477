package engine

import (
	"fmt"
	"testing"
	"time"
)

// aimed begins a schedule in which nothing happens by chance but how long things take. It has one replica, and rows
// come only from [sim.add].
func aimed(change func(*sim)) *sim {
	s := newSim(1)
	s.limits = Limits{
		Batch: 50, Rows: 400, Bytes: 1 << 20, Keys: 1000, Waiting: 1000, Holds: 10, Hot: 1 << 30,
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

// add commits a row.
func (s *sim) add(key, topic string, change func(*simRow)) *simRow {
	x := &simTx{}
	s.ids++
	r := &simRow{
		id: fmt.Sprintf("row%06d", s.ids), key: key, keyed: key != "", inserted: s.at, tx: x, attempt: 1, topic: topic,
	}
	r.order, r.drawn = s.draw(x)
	if change != nil {
		change(r)
	}
	s.table.place(r)
	r.top = s.table.number(x)
	r.xmin = r.top
	s.table.byID[r.id] = r
	s.table.all = append(s.table.all, r)
	x.apply = append(x.apply, func() {
		r.committed, r.visible = s.at, true
		s.table.put(r)
	})
	s.table.end(x, true)
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
