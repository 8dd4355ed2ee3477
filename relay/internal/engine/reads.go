package engine

import (
	"context"
	"maps"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// Two reads may be under way, one of keys and one of the other kinds, which take turns: none of these can starve
// another one, however long its own work is. Two cost two connections, and let keys in trouble be read while a slow
// page of the tail is. When there was one, a pass over a million pending rows for keys without an index stopped the
// tail for 150 ms. Their results are taken one after the other, and each says which rows it may still bring although
// they have been settled meanwhile (gone).

// Kind is the kind of a read.
type Kind uint8

// Kinds of reads. Reads of keys are made beside the others.
const (
	Tail   Kind = iota // pending rows in table order
	Due                // pending rows by their available_at
	Sweep              // pending rows in table order, without their contents
	Failed             // the keys of failed rows
	Keys               // the first pending rows of some keys
	kinds
)

// A Read is one statement, and its result. Do makes it. Only its user touches it between [Engine.Next] and
// [Engine.Taken], and only the engine at other times.
type Read struct {
	Kind   Kind
	number uint64    // reads are numbered from 1 in the order in which they begin
	began  time.Time // by the engine's clock, so that the time until Taken includes waiting for a connection

	query outbox.Query
	Page  outbox.Page
	Err   error // why it has failed
}

// Do makes the read. Any goroutine may call it; the engine does not look at the read until it is given back. It blocks
// until the statement has ended, or its time or ctx has, and leaves what went wrong in Err.
func (r *Read) Do(ctx context.Context, limit time.Duration, from Table) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch r.Kind {
	case Keys:
		r.Page, r.Err = from.Keys(ctx, r.query)
	case Failed:
		r.Page, r.Err = from.Blocked(ctx, r.query)
	default:
		r.Page, r.Err = from.Tail(ctx, r.query)
	}
}

// rows returns how many rows it may bring to be published.
func (r *Read) rows() int {
	if r.Kind == Sweep || r.Kind == Failed {
		return 0
	}
	return r.query.Rows
}

// reads are the reads that are under way: one of keys, and one of the other kinds.
type reads struct {
	last  uint64           // number of the last read that has begun
	under [2]*Read         // those under way, by slot; nil for none
	stale bool             // what the read of another kind than keys brings is not to be taken: the tails begin anew
	turn  Kind             // kind of the last read, other than of keys
	rests [kinds]time.Time // until when reads of a kind rest
	wants [kinds]int64     // bytes of the next row of a kind, for which there was no room

	patience [kinds]time.Duration // see LimitOf
}

const (
	// sweepPatience is how long a sweep's page may take at first: the flow of rows waits for it, and does not need it.
	// A page of 4,000 rows takes 7.5 ms where nothing is wrong.
	sweepPatience = 3 * time.Second
	// longestRead is the longest that a read may take. One that has to step over millions of dead entries, for
	// instance, completes in the end.
	longestRead = 16 * StatementTimeout
)

// LimitOf returns how long the next read of a kind may take. One that has run out of time gets twice the time, and the
// reads after it twice as long as it took in the end. Without that, a read that has to step over the entries of a table
// that was never vacuumed would begin again and again, and never end; with minutes from the start, rows waited for them
// when a connection was lost and a proxy on the way acknowledged what was sent.
func (e *Engine) LimitOf(kind Kind) time.Duration {
	if kind == Sweep {
		return max(e.reads.patience[kind], sweepPatience)
	}
	return max(e.reads.patience[kind], StatementTimeout)
}

// slot returns the place of a kind among the reads that are under way.
func slot(k Kind) int {
	if k == Keys {
		return 1
	}
	return 0
}

// oldest returns the number of the first of the reads that are under way, 0 for none.
func (s *reads) oldest() (number uint64) {
	for _, r := range s.under {
		if r != nil && (number == 0 || r.number < number) {
			number = r.number
		}
	}
	return number
}

// Next returns the read to make now, or nil. There may be two reads under way at a time, so the user asks until it is
// nil. Each one that is not nil is given back with [Engine.Taken]. Before it looks for a read, it lets go on what
// can: keys that waited for a hold that has ended, or for room, and the tail, once there is room for keys that wait.
func (e *Engine) Next(now time.Time) *Read {
	if e.stopping {
		return nil
	}
	e.fill(now)
	e.try(now)
	e.promote(now)
	e.unjam()
	if e.shards.active.Len() == 0 {
		return nil
	}
	for i := range kinds { // the kinds take turns
		kind := (e.reads.turn + 1 + i) % kinds
		if at, ok := e.due(kind, now); ok && !at.After(now) {
			return e.begin(kind, now)
		}
	}
	return nil
}

// due returns when a read of a kind may be made, if there is one to make. ok is false if only an event can bring one:
// the read before it is under way, or there is no room.
func (e *Engine) due(kind Kind, now time.Time) (at time.Time, ok bool) {
	if e.reads.under[slot(kind)] != nil {
		return at, false
	}
	switch kind {
	case Keys:
		at, ok = e.keysDue()
	case Sweep:
		at, ok = e.sweepDue(now)
	case Failed:
		at, ok = e.failed.due(listPause), e.BlockFailed
	default:
		at, ok = e.tailDue(kind)
	}
	return later(at, e.reads.rests[kind]), ok
}

// tailDue returns when the next page of a tail is to be read, if there is room for it. A quarter of the room is left to
// keys that are read by themselves. Where failed rows block their keys, nothing is read before they are listed to the
// end: rows after a failed one would go.
func (e *Engine) tailDue(kind Kind) (at time.Time, ok bool) {
	if kind == Due && !e.Table.ReadsDue() || e.waits.jammed || e.unlisted() || e.tailRows() < e.least() {
		return at, false
	}
	if bytes, _ := e.freeBytes(kind); bytes == 0 {
		return at, false
	}
	if t := &e.tails[kind]; !t.more {
		at = t.poll
	}
	return at, true
}

// begin returns the read of a kind, which is under way from now on. Its result is not taken any more if the tails begin
// again meanwhile.
func (e *Engine) begin(kind Kind, now time.Time) (r *Read) {
	switch kind {
	case Keys:
		r = e.readKeys(now)
	case Sweep:
		r = e.readSweep()
	case Failed:
		r = e.readList()
	default: // a tail
		r = e.readTail(kind, now)
	}
	s := &e.reads
	s.last++
	r.number, r.began = s.last, now
	s.under[slot(kind)] = r
	if kind != Keys {
		s.turn, s.stale = kind, false
	}
	return r
}

// Taken takes the result of a read. It returns how many rows were new. Each kind then rests in proportion to what the
// read took: the sweep and reads without an index four times as long, so that they cost a fifth of a processor at most.
// A result may come late or never be of use: after a stop, and after the tails began again, it only ends the read
// (invariant 6). armed is since when each writer rings; zero if they do not.
func (e *Engine) Taken(r *Read, armed, now time.Time) (fresh int) {
	s, took := &e.reads, now.Sub(r.began)
	e.Measure.Stage(measure.StageFetch, took)
	if s.under[slot(r.Kind)] = nil; r.Err == nil {
		s.patience[r.Kind] = min(s.patience[r.Kind], 2*took)
	} else {
		e.failedRead(r, took, now)
	}
	// A read of keys is never stale: each of its keys says itself whether it still waits for the result.
	stale := s.stale && r.Kind != Keys || e.stopping
	switch {
	case r.Kind == Keys:
		if r.Err != nil {
			took = 0
		} else if !e.Table.KeyIndexed() {
			took *= unindexedShare
		}
		s.rests[Keys] = later(s.rests[Keys], now.Add(took))
		s.wants[Keys] = r.Page.Wants
		if !e.stopping {
			fresh = e.took(r, now)
		}
	case r.Err != nil, stale:
	case r.Kind == Failed:
		s.rests[Failed] = now.Add(took)
		e.listed(r, took, now)
	case r.Kind == Sweep:
		s.rests[Sweep] = now.Add(unindexedShare * took)
		e.swept(r, took, now)
	default:
		fresh = e.taken(r, armed, now)
	}
	e.forget(r)
	return fresh
}

// failedRead makes reads rest after one that has failed: all of them for a moment, since the database may be away, and
// its own kind for as long as it took, five seconds at most, since its connection may have been lost. One that ran out
// of time says nothing about the others, and gets more the next time.
func (e *Engine) failedRead(r *Read, took time.Duration, now time.Time) {
	s := &e.reads
	if outbox.Cancelled(r.Err) {
		s.patience[r.Kind] = min(2*e.LimitOf(r.Kind), longestRead)
	} else {
		for kind := range kinds {
			s.rests[kind] = later(s.rests[kind], now.Add(e.pauseAmong(0, readPause)))
		}
	}
	rest := min(took, longestFailedRest)
	if r.Kind == Sweep { // the flow of rows waits for it, and does not need it
		rest = RestShare * took
	}
	s.rests[r.Kind] = later(s.rests[r.Kind], now.Add(rest))
}

// readPause makes reads rest as after so many failures in a row: for 100 to 200 ms.
const readPause = 2

// unindexedShare is how long reads rest that go over many rows, as a multiple of the time that they took. Without an
// index by key, a read of one key or of 500 is a pass over all pending rows: 14 ms of PostgreSQL for 100,000 of them,
// 150 to 166 for a million.
const unindexedShare = 4

// longestFailedRest is the longest rest after a read that has failed. A read that had waited for a lost connection for
// thirty seconds rested for thirty more, so that rows flowed again after a minute.
const longestFailedRest = 5 * time.Second

// forget forgets rows that were settled before all reads that are under way, when a read has ended. It goes over gone
// only if that was the oldest one, and not after each of many short reads beside a long one.
func (e *Engine) forget(r *Read) {
	if oldest := e.reads.oldest(); oldest == 0 || oldest > r.number {
		maps.DeleteFunc(e.gone, func(_ string, last uint64) bool { return oldest == 0 || last < oldest })
	}
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
