package engine

import (
	"context"
	"hash/fnv"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

type simStatus uint8

const (
	pending simStatus = iota
	relayed
	failed
	deleted
)

// A simRow is a row with what happened to it.
type simRow struct {
	id, key   string
	keyed     bool
	topic     string
	part      int // of its topic
	shard     int
	order     int64
	available time.Duration // not before; 0 for at once
	size      int
	content   int // grows when somebody changes what is published of the row
	version   int // grows with each update
	top, xmin uint64
	tx        *simTx
	drawn     time.Duration // when the order value was drawn
	inserted  time.Duration
	committed time.Duration
	visible   bool
	status    simStatus
	attempt   int64
	updated   time.Duration // when it was refused
	locked    bool          // an application's update is open
	guarded   bool          // a trigger keeps it from being written

	// The broker's plans with it, and what happened.
	refuse    int  // times that it is refused
	poison    bool // refused for ever
	permanent bool
	unknown   int // publishes without an answer
	arrives   bool
	hands     []time.Duration // when it was handed to a publisher
	seen      time.Duration   // when it was first in flight
	first     int             // number of its first delivery, 0 for none
	sent      int
	sentAs    map[string]bool // contents that were delivered
	mayRepeat int
	refused   int
	spans     []simSpan // when it was failed
	retried   bool
	touched   bool // by hand
}

type simSpan struct{ from, to time.Duration }

// A simTx is a transaction.
type simTx struct {
	xid     uint64
	last    uint64 // the highest number of a savepoint
	apply   []func()
	ended   bool
	busy    int // inserts on their way
	session int
}

// A simTable is an outbox in a simulated PostgreSQL.
type simTable struct {
	*sim
	next      uint64 // the next number
	completed uint64 // the highest that has ended
	running   []uint64
	rows      []*simRow // pending and visible, in table order
	all       []*simRow
	byID      map[string]*simRow
	failed    map[string]*simRow
	sequence  int64
	visited   int // rows that the last read went over
}

func newSimTable(s *sim) *simTable {
	return &simTable{sim: s, next: 100, completed: 99, byID: map[string]*simRow{}, failed: map[string]*simRow{}}
}

func (t *simTable) Ordinal() bool       { return !t.unordered }
func (t *simTable) Timed() bool         { return false }
func (t *simTable) Ranked() bool        { return false }
func (t *simTable) Delays() bool        { return false }
func (t *simTable) ReadsDue() bool      { return t.delays }
func (t *simTable) Exact() bool         { return t.exact }
func (t *simTable) KeyIndexed() bool    { return !t.slowKeys }
func (t *simTable) KeepsFailures() bool { return true }
func (t *simTable) KeepsAttempts() bool { return true }
func (t *simTable) KeepsErrors() bool   { return true }

func (t *simTable) assign() uint64 { t.next++; return t.next - 1 }

// number gives a transaction its number, at its first write.
func (t *simTable) number(x *simTx) uint64 {
	if x.xid == 0 {
		x.xid = t.assign()
		t.running = append(t.running, x.xid)
	}
	return x.xid
}

// savepoint returns the number of what a transaction writes under a savepoint. No snapshot lists it.
func (t *simTable) savepoint(x *simTx) uint64 {
	t.number(x)
	x.last = t.assign()
	return x.last
}

func (t *simTable) end(x *simTx, commit bool) {
	x.ended = true
	if x.xid != 0 {
		t.running = slices.DeleteFunc(t.running, func(n uint64) bool { return n == x.xid })
		t.completed = max(t.completed, x.xid, x.last)
	}
	if commit {
		for _, f := range x.apply {
			f()
		}
	}
}

// alone runs f in a transaction of its own.
func (t *simTable) alone(f func(xid uint64)) {
	x := &simTx{}
	n := t.number(x)
	t.end(x, true)
	f(n)
}

func (t *simTable) snapshot() outbox.Visible {
	v := outbox.Visible{Next: t.completed + 1, Unassigned: t.next, Now: t.now()}
	for _, n := range t.running {
		if n < v.Next {
			v.Running = append(v.Running, n)
		}
	}
	slices.Sort(v.Running)
	if v.Oldest = v.Next; len(v.Running) > 0 {
		v.Oldest = v.Running[0]
	}
	return v
}

func (r *simRow) position() outbox.Position { return outbox.At(r.order, r.id) }

func simBefore(a, b *simRow) bool { return a.order < b.order || a.order == b.order && a.id < b.id }

func (t *simTable) put(r *simRow) {
	t.rows = slices.Insert(t.rows, sort.Search(len(t.rows), func(i int) bool { return simBefore(r, t.rows[i]) }), r)
}

func (t *simTable) drop(r *simRow) {
	t.rows = slices.DeleteFunc(t.rows, func(other *simRow) bool { return other == r })
}

func hashText(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	x := h.Sum64()
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}

// name is the text by which a row is ordered.
func (r *simRow) name() string {
	if r.keyed {
		return r.key
	}
	return r.id
}

func (t *simTable) hash(r *simRow) uint64 {
	if t.delays && r.available > 0 { // a key by its id
		return hashText(r.id)
	}
	return t.keyHash(r)
}

// keyHash is the hash of a row's key, also where the row is read by its available_at.
func (t *simTable) keyHash(r *simRow) uint64 {
	h := hashText(r.name())
	if t.collide && r.keyed {
		h %= 16
	}
	return h
}

func (t *simTable) writer(r *simRow) uint64 {
	if t.exact {
		return r.top
	}
	return r.xmin
}

// place puts a row in the shard and partition of its key.
func (t *simTable) place(r *simRow) {
	r.shard = int(t.keyHash(r) % simShards)
	r.part = int(hashText(r.name()+"p") % simParts)
}

// read returns a row as a statement reads it.
func (t *simTable) read(r *simRow) outbox.Row {
	row := outbox.Row{
		Message:  publisher.Message{ID: r.id, Topic: r.topic, Payload: make([]byte, r.size)},
		Position: r.position(), Shard: r.shard, Attempt: r.attempt, Hash: t.hash(r), Writer: t.writer(r), After: true,
		Delayed: r.available > 0 && t.delays, Timed: r.available > 0,
		Extra: []string{strconv.Itoa(r.version), strconv.Itoa(r.content)},
	}
	if r.keyed {
		row.Message.Key = []byte(r.key)
	}
	if r.attempt > 1 {
		row.Retried, row.Waited = true, t.at-r.updated
	}
	return row
}

// isDue reports whether a read of due rows, or one in table order, has the row.
func (t *simTable) isDue(r *simRow, due bool) bool {
	return due == (r.available > 0 && t.delays) && r.available <= t.at
}

// size is the size of a row as bounds count it.
func simSize(r *outbox.Row) int64 { return int64(r.Message.Size()) }

// fits reports whether a row still fits in a page.
func fits(m *outbox.Most, rows int, bytes int64, r *outbox.Row) bool {
	if rows == 0 {
		return bytes+simSize(r) <= max(m.Bytes, m.First)
	}
	return rows < m.Rows && bytes+simSize(r) <= m.Bytes
}

func (t *simTable) Tail(_ context.Context, q outbox.Query) (outbox.Page, error) {
	if q.Sweep {
		return t.sweep(q), nil
	}
	p := outbox.Page{Visible: t.snapshot()}
	t.visited = 0
	var bytes int64
	rows := t.rows
	if q.Due {
		rows = slices.Clone(rows)
		slices.SortStableFunc(rows, func(a, b *simRow) int { return int(a.available - b.available) })
	}
	for _, r := range rows {
		if q.Due && r.available > t.at && (p.Next == 0 || r.available-t.at < p.Next) {
			p.Next = r.available - t.at
		}
		if !t.isDue(r, q.Due) || q.Shards != nil && !slices.Contains(q.Shards, r.shard) {
			continue
		}
		position := r.position()
		if q.Due {
			position = outbox.At(int64(r.available), r.id)
		}
		after := q.After.IsZero() || q.After.Before(position)
		if !after && (q.Seen == nil || q.Low != nil && r.order < min(*q.Low, q.After.Ordinal)) {
			continue
		}
		t.visited++
		if !after && q.Seen.Certain(t.writer(r), t.exact, q.Seen.FirstEnded(&p.Visible)) &&
			r.available <= q.Seen.Now.Sub(simStart) {
			continue
		}
		row := t.read(r)
		row.Position, row.After = position, after
		if !fits(&q.Most, len(p.Rows), bytes, &row) {
			if p.Full = true; len(p.Rows) == 0 {
				p.Wants = simSize(&row)
			}
			break
		}
		p.Rows = append(p.Rows, row)
		if bytes += simSize(&row); len(p.Rows) == q.Rows {
			p.Full = true
			break
		}
	}
	return p, nil
}

func (t *simTable) Keys(_ context.Context, q outbox.Query) (outbox.Page, error) {
	p := outbox.Page{Visible: t.snapshot()}
	t.visited = 0
	n, bytes, full := 0, int64(0), false
	for _, a := range q.Asks {
		k := outbox.KeyRows{All: true}
		for _, r := range t.rows {
			if t.hash(r) != a.Hash || !t.isDue(r, q.Due) || a.From != nil && r.order < *a.From {
				continue
			}
			t.visited++
			row := t.read(r)
			if len(k.Rows) == a.Limit || full || !fits(&q.Most, n, bytes, &row) {
				if k.All = false; n == 0 && !full {
					p.Wants = simSize(&row)
				}
				full = full || len(k.Rows) < a.Limit
				break
			}
			k.Rows = append(k.Rows, row)
			n++
			bytes += simSize(&row)
		}
		p.Keys = append(p.Keys, k)
	}
	if p.Wants > 0 {
		p.Keys = nil
	}
	return p, nil
}

func (t *simTable) sweep(q outbox.Query) outbox.Page {
	p := outbox.Page{Visible: t.snapshot()}
	for _, r := range t.rows {
		switch {
		case !q.After.IsZero() && !q.After.Before(r.position()), q.Shards != nil && !slices.Contains(q.Shards, r.shard),
			!t.isDue(r, false):
			continue
		case !q.Upto.IsZero() && q.Upto.Before(r.position()):
			return p
		}
		p.Rows = append(p.Rows, t.read(r))
		if p.Full = len(p.Rows) == min(q.Rows, 4*t.limits.Batch); p.Full {
			break
		}
	}
	return p
}

func (t *simTable) Blocked(_ context.Context, q outbox.Query) (outbox.Page, error) {
	var p outbox.Page
	var ids []string
	for id, r := range t.failed {
		if r.keyed && (q.After.IsZero() || q.After.Before(outbox.At(0, id))) &&
			(q.Shards == nil || slices.Contains(q.Shards, r.shard)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	most := min(q.Rows, 2+t.limits.Batch)
	for _, id := range ids[:min(len(ids), most)] {
		r := t.failed[id]
		p.Rows = append(p.Rows, outbox.Row{Hash: t.keyHash(r), Shard: r.shard, Position: outbox.At(0, id)})
	}
	p.Full = len(p.Rows) == most
	return p, nil
}
