package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// A simReplica is a process: an engine, workers and a settler.
type simReplica struct {
	*sim
	e       *Engine
	name    int
	dead    bool
	busy    []bool // lanes
	settles bool
	todo    []Outcome
	owned   owner.Set
	leaving map[int]*simReplica
	wakes   time.Duration
	steps   int
}

func (s *sim) start(name int) *simReplica {
	p := &simReplica{sim: s, e: New(s.setup()), name: name, leaving: map[int]*simReplica{}, busy: make([]bool, 2+TryLanes)}
	p.step()
	return p
}

// step does what the engine wants now.
func (p *simReplica) step() {
	if p.act(); p.dead {
		return
	}
	p.steps++
	at := max(p.e.Wake(true, p.now()).Sub(p.now()), 200*time.Microsecond) + p.at
	if p.wakes <= p.at || at < p.wakes {
		p.wakes = at
		p.after(at-p.at, func() {
			if p.wakes == p.at && !p.dead {
				p.step()
			}
		})
	}
}

func (p *simReplica) act() {
	if p.dead {
		return
	}
	leaving := owner.Set{}
	for s := range p.leaving {
		leaving.Add(s)
	}
	for _, s := range p.e.Own(p.owned, leaving, p.now()).Shards() {
		heir := p.leaving[s]
		delete(p.leaving, s)
		p.logf("replica %d releases shard %d", p.name, s)
		p.after(p.upto(20*ms), func() {
			if heir.dead {
				p.orphans = append(p.orphans, s)
				return
			}
			heir.gain(s)
		})
	}
	for r := p.e.Next(p.now()); r != nil; r = p.e.Next(p.now()) {
		p.read(r)
	}
	for lane := range p.busy {
		if p.busy[lane] {
			continue
		}
		if batch := p.e.Batch(lane >= 2, p.now()); len(batch) > 0 {
			p.send(lane, batch)
		}
	}
	p.e.Writes(p.now(), func(o Outcome) { p.todo = append(p.todo, o) })
	if len(p.todo) > 0 && !p.settles {
		o := p.todo[0]
		p.todo = p.todo[1:]
		p.settle(o)
	}
	if n := len(p.e.flying); n > p.limits.Rows {
		p.faultf("%d rows in flight, of %d", n, p.limits.Rows)
	}
	room := p.limits.Keys + max(1, p.limits.Keys/8)
	if known, closed, waits := len(p.e.keys), p.e.closed, len(p.e.waits.by); known > room+2*p.limits.Rows ||
		closed > room+p.limits.Rows || waits > p.limits.Waiting {
		p.faultf("%d keys are known, %d closed, %d wait", known, closed, waits)
	}
}

func (p *simReplica) send(lane int, batch []*Row) {
	p.busy[lane] = true
	for _, r := range batch {
		p.logf("replica %d lane %d sends %s", p.name, lane, r.ID())
	}
	p.broker.publish(batch, func() bool { return p.dead }, func(answers []error) {
		p.busy[lane] = false
		for i, r := range batch {
			p.logf("replica %d: answer for %s: %v", p.name, r.ID(), answers[i])
		}
		p.e.Answers(batch, answers, p.now())
		p.step()
	})
}

func (p *simReplica) gain(shard int) {
	p.logf("replica %d gains shard %d", p.name, shard)
	p.owned.Add(shard)
	p.step()
}

// settle writes an outcome, again and again until it is known to be written.
func (p *simReplica) settle(o Outcome) {
	p.settles = true
	x, t := &simTx{}, p.table
	took := p.took + p.upto(4*ms)
	if p.one(30) {
		took += p.upto(400 * ms)
	}
	start := p.upto(took)
	commit := start + p.upto(took-start)
	fault := 0
	if p.writeFaults && !p.healed && p.one(6) {
		fault = 1 + p.IntN(2)
	}
	o.Unwritten = nil
	p.after(start, func() {
		if p.dead && p.one(2) {
			return
		}
		t.number(x)
		p.after(commit-start, func() {
			if fault == 1 || p.dead && p.one(2) {
				t.end(x, false)
				return
			}
			t.end(x, true)
			t.write(&o, x.xid, func(r *simRow) bool { return r.locked && p.locked && p.one(2) })
			for _, r := range o.Rows {
				p.logf("replica %d wrote %s: refused %v, failed %v, why not %v", p.name, r.ID(), r.Refused, r.Failed,
					o.Unwritten[r.Identity()])
			}
		})
	})
	if fault > 0 {
		took += p.upto(2 * time.Second)
	}
	p.after(took, func() {
		switch {
		case p.dead:
		case fault > 0:
			p.settle(o)
		default:
			p.settles = false
			p.e.Written(o, p.now())
			p.step()
		}
	})
}

var errSim = errors.New("the read has failed")

func (p *simReplica) read(r *Read) {
	p.reads[r.Kind]++
	if p.note != nil {
		p.note(r)
	}
	var fails error
	if p.readFaults && !p.healed && p.one(12) {
		fails = errSim
	}
	begin := p.upto(p.took)
	if p.slowReads && p.one(4) {
		begin += p.upto(1100 * ms)
	}
	p.after(begin, func() {
		if p.dead {
			return
		}
		r.Do(context.Background(), StatementTimeout, p.table)
		took := p.upto(p.took) + time.Duration(p.table.visited)*2*time.Microsecond
		if fails != nil {
			took += p.upto(3 * time.Second)
		}
		if r.Kind == Keys && p.slowKeys {
			took += p.upto(400 * ms) // there is no index by key
		}
		p.logRead(r)
		p.after(took, func() {
			if p.dead {
				return
			}
			r.Err = fails
			p.e.Taken(r, time.Time{}, p.now())
			for id := range p.e.flying {
				if row := p.table.byID[id]; row.seen == 0 {
					row.seen = p.at
				}
			}
			p.logf("replica %d has read %d", p.name, r.number)
			p.step()
		})
	})
}

func (p *simReplica) logRead(r *Read) {
	if p.log == nil {
		return
	}
	p.logf("replica %d reads %d: kind %d, seen %v, after %v, low %v, asks %v", p.name, r.number, r.Kind, r.query.Seen,
		r.query.After, r.query.Low, len(r.query.Asks))
	p.logf("    snapshot %v %v %v full %v", r.Page.Visible.Oldest, r.Page.Visible.Next, r.Page.Visible.Running,
		r.Page.Full)
	for i := range r.Page.Rows {
		p.logf("    %s after %v", r.Page.Rows[i].ID(), r.Page.Rows[i].After)
	}
	for _, k := range r.Page.Keys {
		p.logf("    key: all %v", k.All)
		for i := range k.Rows {
			p.logf("        %s", k.Rows[i].ID())
		}
	}
}

// kill ends a replica at once.
func (p *simReplica) kill() {
	p.dead = true
	for id := range p.e.flying {
		p.table.byID[id].mayRepeat++
	}
}

// move makes a replica give a shard to another one.
func (s *sim) move() {
	from, to := s.replicas[s.IntN(len(s.replicas))], s.replicas[s.IntN(len(s.replicas))]
	if len(from.leaving) > 0 && s.one(2) { // a shard that is about to be given away comes back
		all := slices.Sorted(maps.Keys(from.leaving))
		shard := all[s.IntN(len(all))]
		delete(from.leaving, shard)
		from.gain(shard)
		return
	}
	all := from.owned.Shards()
	if len(all) == 0 {
		return
	}
	shard := all[s.IntN(len(all))]
	s.logf("replica %d is to give shard %d to %d", from.name, shard, to.name)
	from.owned = from.owned.Without(setOf(shard))
	from.leaving[shard] = to
	from.step()
}

// crash kills a replica and starts another one. Its shards are given away some time later.
func (s *sim) crash() {
	i := s.IntN(len(s.replicas))
	old := s.replicas[i]
	s.logf("replica %d is killed", i)
	old.kill()
	s.replicas[i] = s.start(i)
	all := slices.Concat(old.owned.Shards(), slices.Sorted(maps.Keys(old.leaving)), s.orphans)
	s.orphans = nil
	slices.Sort(all)
	for _, shard := range all {
		s.after(s.upto(2*time.Second), func() { s.replicas[s.IntN(len(s.replicas))].gain(shard) })
	}
}
