package engine

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestSchedules runs random schedules, the same each time, and prints the seeds of those that fail. SIMULATION_RUNS is
// their number and SIMULATION_SEED the first seed; with SIMULATION_RUNS=1 the log says what happens. What is checked is
// in simcheck_test.go. There are few unless more are asked for, as make test does: with the race detector, which has
// nothing to find in an engine that one goroutine calls, a run takes twenty times as long.
func TestSchedules(t *testing.T) {
	t.Parallel()
	number := func(variable string, otherwise uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(variable), 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	runs, first := number("SIMULATION_RUNS", 30), number("SIMULATION_SEED", 1)
	var bad atomic.Int64
	lanes := uint64(runtime.GOMAXPROCS(0))
	for lane := range lanes {
		t.Run(strconv.FormatUint(lane, 10), func(t *testing.T) {
			t.Parallel()
			for n := lane; n < runs && bad.Load() < 5; n += lanes {
				var log func(string, ...any)
				if runs == 1 {
					log = t.Logf
				}
				if s := schedule(first+n, log); len(s.faults) > 0 {
					bad.Add(1)
					t.Errorf("SIMULATION_SEED=%d SIMULATION_RUNS=1: %d faults, the first: %.600s\n%+v", first+n, len(s.faults),
						strings.Join(s.faults[:min(3, len(s.faults))], "; "), s.shape)
				}
			}
		})
	}
}

// schedule runs the schedule of a seed.
func schedule(seed uint64, log func(string, ...any)) *sim {
	s := newSim(seed)
	s.log = log
	stays := s.choose()
	for i := range s.shape.replicas {
		s.replicas = append(s.replicas, s.start(i))
	}
	for shard := range simShards {
		s.replicas[shard%len(s.replicas)].gain(shard)
	}
	for range s.shape.events {
		s.event()
		s.run(s.at + s.upto(s.pause))
		if s.longEvery > 0 && s.one(15) {
			s.run(s.at + s.upto(10*time.Second))
		}
	}
	s.heal()
	if stays { // a topic stays missing: everything else is relayed
		topic := fmt.Sprintf("t%d", s.IntN(s.topics))
		s.broker.missing[topic] = true
		s.run(s.at + 150*time.Second)
		s.checkOthers(topic)
		delete(s.broker.missing, topic)
	}
	s.run(s.at + 31*time.Second)
	for limit := s.at + 30*time.Minute; s.at < limit && // a key of a hundred rows that fail, each in turn, takes long
		(s.open > 0 || len(s.table.rows) > 0 || s.block && len(s.table.failed) > 0); {
		s.run(s.at + time.Second)
		s.retry(1)
	}
	s.logf("everything is done, or should be")
	s.run(s.at + 2*time.Minute) // then nothing is to be remembered
	s.check()
	return s
}

// choose chooses what the schedule concentrates on, and whether a topic stays missing.
func (s *sim) choose() (stays bool) {
	second := time.Second
	s.limits = Limits{
		Batch: 1 + s.IntN(50), Rows: 4 + s.IntN(200), Bytes: 1 << 20, Keys: 3 + s.IntN(30), Waiting: 1 + s.IntN(60),
		Poll: 20*ms + s.upto(400*ms), Patience: 15 * second,
	}
	s.shape = shape{
		keys: 1 + s.IntN(30), topics: 1 + s.IntN(4), late: s.one(2), savepoints: s.one(2), unserialised: s.one(12),
		stale: s.one(8), cache: s.one(8),
		deletes: s.one(3), updates: s.one(3), second: s.one(4), bulk: s.one(4), crashes: s.one(4), moves: s.one(2),
		readFaults:  s.one(4),
		writeFaults: s.one(3), lost: s.one(3), away: s.one(3), events: 20 + s.IntN(60), pause: s.upto(300 * ms),
		replicas: 1 + s.IntN(3),
		inserts:  1 + s.IntN(8), took: ms + s.upto(20*ms), slowKeys: s.one(4), exact: s.one(2), block: s.one(2),
		locked:  s.one(4),
		guarded: s.one(8), delays: s.one(4), slowReads: s.one(8), collide: s.one(10), large: s.one(4), unordered: s.one(10),
	}
	if s.one(2) {
		s.longEvery = 2 + s.IntN(10)
	}
	if s.one(5) {
		s.ties = 2 + s.Int64N(6)
	}
	if s.one(3) { // few keys, small pages: what matters meets
		s.keys, s.limits.Batch, s.limits.Rows = 1+s.IntN(5), 1+s.IntN(8), 8+s.IntN(30)
		s.limits.Keys, s.limits.Waiting = 2+s.IntN(6), 1+s.IntN(10)
	}
	if s.slowKeys { // else the schedules do not end
		s.limits.Batch = max(s.limits.Batch, 8)
	}
	if s.large {
		s.limits.Bytes = 2000 + s.Int64N(50_000)
	}
	switch s.IntN(12) {
	case 0:
		s.offset = -3000
	case 1:
		s.offset = 1<<63 - 1 - int64(5+s.IntN(60))
		s.keys, s.slowKeys, s.block = 1+s.IntN(3), true, false
	}
	if s.one(3) {
		hands := []string{"key", "topic", "back", "forward", "replay", "reinsert", "setback", "null", "attempt", "payload"}
		s.Shuffle(len(hands), func(i, j int) { hands[i], hands[j] = hands[j], hands[i] })
		s.hands = hands[:1+s.IntN(len(hands))]
	}
	s.broker.slow, s.slowest = s.upto(60*ms), 300*ms
	if s.one(3) {
		s.choosesHot()
	}
	return s.one(3)
}

// choosesHot makes a few keys have many rows, of which some are moved between them by hand while slow publishes are
// under way: long queues of closed keys, whose reads go on from where they were.
func (s *sim) choosesHot() {
	s.keys, s.inserts, s.limits.Batch = 2+s.IntN(4), 4+s.IntN(10), 2+s.IntN(10)
	s.limits.Rows, s.limits.Keys, s.limits.Waiting = 100, 100, 100
	s.slowKeys, s.collide, s.unserialised, s.stale, s.cache, s.unordered, s.crashes, s.delays = false, false, false, false,
		false, false, false, false
	s.hands = [][]string{
		{"key"},
		{"key", "null"},
		{"key", "topic"},
		{"key", "payload"},
		{"key", "replay"},
		{"key", "back"},
	}[s.IntN(6)]
	s.shape.events *= 2
	s.broker.slow, s.slowest = s.upto(600*ms), 2*time.Second
}

// event lets something happen.
func (s *sim) event() {
	for range 3 {
		if len(s.hands) > 0 && s.one(2) {
			s.after(s.upto(s.pause+ms), s.byHand)
		}
	}
	topic, part := fmt.Sprintf("t%d", s.IntN(s.topics)), s.IntN(simParts)
	switch s.IntN(25) {
	case 0:
		s.broker.missing[topic] = true
	case 1, 2:
		delete(s.broker.missing, topic)
	case 3:
		s.broker.down[fmt.Sprintf("%s/%d", topic, part)] = true
	case 4, 5:
		delete(s.broker.down, fmt.Sprintf("%s/%d", topic, part))
	case 6:
		s.broker.away = s.away
	case 7, 8:
		s.broker.away = false
	case 9, 10:
		if s.moves {
			s.move()
			if s.one(2) {
				s.after(s.upto(30*ms), s.move)
			}
		}
	case 11:
		if s.crashes && s.one(3) {
			s.crash()
		}
	case 12:
		s.broker.slow = s.upto(s.slowest)
	case 13:
		s.broker.slow = s.upto(10 * ms)
	case 14, 15:
		s.update()
	case 16:
		s.retry(2)
	case 17:
		if rows := s.table.rows; s.guarded && len(rows) > 0 {
			r := rows[s.IntN(len(rows))]
			r.guarded, r.mayRepeat = true, r.mayRepeat+100 // its shard may be given away meanwhile
			s.after(s.upto(5*time.Second), func() { r.guarded = false })
		}
	default:
		for range 1 + s.IntN(s.inserts) {
			s.after(s.upto(s.pause+ms), s.transaction)
		}
	}
}

// heal ends all trouble. Rows go on coming for a time.
func (s *sim) heal() {
	s.logf("all is healed")
	s.healed = true
	clear(s.broker.missing)
	clear(s.broker.down)
	s.broker.away, s.broker.slow = false, 5*ms
	for _, r := range s.table.all {
		r.guarded = false
	}
	s.after(30*time.Second, func() {
		for _, shard := range s.orphans {
			s.replicas[0].gain(shard)
		}
		s.orphans = nil
	})
	for range 5 {
		s.after(s.upto(20*time.Second), s.transaction)
	}
}

// checkOthers checks that no row waits whose key has nothing to do with a topic that is missing.
func (s *sim) checkOthers(topic string) {
	// A topic that came back may leave so many rows without a key behind that the sweep closes few of them at a time, and
	// each of their reads takes half a second or more.
	if s.slowKeys && s.limits.Keys < 8 {
		return
	}
	has := map[uint64]bool{}
	for _, r := range s.table.all {
		if r.visible && r.topic == topic && (r.keyed && (r.available == 0 || !s.delays) || s.collide) {
			has[nameOf(s.table.hash(r), r.available > 0)] = true
		}
	}
	for _, p := range s.replicas { // rows that were changed by hand leave keys behind that wait for nothing
		if len(has) > s.limits.Waiting*4/5 || s.block || len(s.hands) > 0 && p.e.waits.jammed { // then everything stops
			return
		}
	}
	for _, r := range s.table.rows {
		if r.retried && r.available > 0 && s.delays {
			continue // a new beginning finds it, within five minutes: no relay was told, and no sweep has such rows
		}
		if r.topic != topic && !has[nameOf(s.table.hash(r), r.available > 0)] && r.committed < s.at-100*time.Second &&
			!r.touched {
			s.faultf("%s waits for what it has nothing to do with", r.id)
		}
	}
}

// check checks what has become of all rows, and that nothing is remembered.
func (s *sim) check() {
	for _, p := range s.replicas {
		if n := len(p.e.keys) + len(p.e.waits.by) + len(p.e.holds.by) + len(p.e.flying) + p.e.closed + len(p.e.resting) +
			p.e.queued; n > 0 {
			s.faultf("remembered: %d keys, %d waiting, %d holds, %d in flight, %d closed, %d resting, %d queued", len(p.e.keys),
				len(p.e.waits.by),
				len(p.e.holds.by), len(p.e.flying), p.e.closed, len(p.e.resting), p.e.queued)
		}
		if n := p.e.bytes; n != 0 {
			s.faultf("%d bytes in flight", n)
		}
		for _, k := range p.e.keys {
			s.faultf("key %d of shard %d: state %d, wire %d, flying %d", k.hash(), k.shard, k.state, k.wire, k.flying)
		}
		for cause, n := range p.e.held {
			if n != 0 {
				s.faultf("%d rows are held for %s", n, cause)
			}
		}
	}
	byKey := map[uint64][]*simRow{}
	for _, r := range s.table.all {
		if !r.visible {
			continue
		}
		switch {
		case r.status == pending:
			s.faultf("%s is still pending", r.id)
		case r.status == failed && !r.retried && !r.touched && !r.permanent && r.refused < simAttempts:
			s.faultf("%s failed after %d refusals", r.id, r.refused)
		case !r.touched && (r.poison || r.permanent) && r.status == relayed:
			s.faultf("%s cannot have been relayed", r.id)
		}
		if r.keyed && r.available == 0 {
			byKey[s.table.hash(r)] = append(byKey[s.table.hash(r)], r)
		}
	}
	for _, rows := range byKey {
		s.checkBlocked(rows)
		// Order values that are set forward, or a sequence that is set back, make new rows come before others; they are
		// found by a sweep.
		if !s.unordered && !slices.Contains(s.hands, "forward") && !slices.Contains(s.hands, "setback") {
			slices.SortFunc(rows, func(a, b *simRow) int {
				if simBefore(a, b) {
					return -1
				}
				return 1
			})
			s.checkOrder(rows)
		}
	}
}

// checkOrder checks the order of the first deliveries of a key, whose rows are given in table order.
func (s *sim) checkOrder(rows []*simRow) {
	for i, a := range rows {
		if a.touched || len(a.spans) > 0 && !s.block || a.first == 0 && a.status != relayed || a.status == failed ||
			a.status == deleted {
			continue
		}
		for _, b := range rows[i+1:] { // whoever the writers are
			if !b.touched && !s.crashes && len(a.spans) == 0 && len(b.spans) == 0 && a.first > b.first && b.first > 0 &&
				a.seen > 0 && b.hands[0] > a.seen {
				s.faultf("%s came after %s, which was handed over at %v when it was in flight since %v", a.id, b.id, b.hands[0],
					a.seen)
			}
		}
		if a.inserted-a.drawn > 900*ms { // it may be below the low watermark
			continue
		}
		loose := s.unserialised || s.cache || s.collide
		if loose && s.overtaken(a, rows[i+1:]) {
			continue
		}
		for _, b := range rows[i+1:] {
			if b.touched || b.first == 0 ||
				!(a.committed <= b.inserted && a.tx != b.tx || a.tx == b.tx && a.inserted <= b.inserted) {
				continue
			}
			if a.first > b.first {
				s.faultf("%s came after %s", a.id, b.id)
			}
		}
	}
}

// overtaken reports whether a row was committed late, after a younger one had been read.
func (s *sim) overtaken(a *simRow, younger []*simRow) bool {
	return slices.ContainsFunc(younger, func(b *simRow) bool {
		return b.first > 0 && b.committed < a.committed && len(b.hands) > 0 && b.hands[0] < a.committed+time.Second
	})
}

// checkBlocked checks that no row of a key was handed over while another one of its rows had failed.
func (s *sim) checkBlocked(rows []*simRow) {
	if !s.block || s.crashes {
		return
	}
	for _, f := range rows {
		for _, span := range f.spans {
			for _, r := range rows {
				for _, at := range r.hands {
					if !r.touched && !f.touched && at > span.from && at < span.to {
						s.faultf("%s was handed over at %v while %s had failed, from %v to %v", r.id, at, f.id, span.from, span.to)
					}
				}
			}
		}
	}
}
