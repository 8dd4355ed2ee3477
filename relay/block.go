package relay

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// block is a key that waits: its head was refused or is held. The key's rows behind the head are dropped
// from memory, and the key is read again from its true head when its time has come.
//
//	waiting ──due──▶ ready ──▶ reading ──rows──▶ trying ──all accepted, none dropped──▶ gone
//	   ▲               ▲          │ none             │
//	   │               └──────────┴──dropped─────────┤
//	   └──written── writing ◀──refused───────────────┘   (held again: straight to waiting)
type block struct {
	key         key
	shard       int
	destination *destination
	cause       cause
	hold        *hold    // waits for this hold to end, or is its probe
	part        *partial // waits by itself, with other keys of a topic
	phase       phase
	due         time.Time // when waiting without a hold
	index       int       // in the heap of waiting blocks, -1 outside

	generation int  // counts the times that the rows taken so far became void
	dropped    bool // rows were dropped since the last re-read began
	closed     bool // no further rows are taken from the present re-read
	trying     int  // rows of the last re-read without an answer
	older      bool // while a refusal is written, a row that goes before the refused one was seen

	head     int64 // no pending row of the key that was seen has a smaller ordinal
	last     int64 // the ordinal of the last row taken from the present re-read
	failures int   // holds in a row
	want     int   // rows to ask for at the next re-read; it doubles each time that all of them were accepted
	overtime int   // re-reads in a row that ended without an answer because their time was over

	blamed   string // id of the row that these are about
	unknown  int    // publishes of it alone whose outcome is unknown
	accepted uint64 // messages that the destination had accepted at the last of them
	refusals int64  // of it, where the table does not count them
}

type phase uint8

const (
	waiting phase = iota // for due, or for the hold
	writing              // for its refusal to be written
	ready                // to be read again
	reading
	trying
)

// blocks are the blocked keys. Only the dispatch touches them.
type blocks struct {
	byKey  map[key]*block
	due    alarms[*block]
	probes alarms[*hold] // holds that wait for their next probe
	ready  []*block
	bytes  int // of the texts that the blocks keep
}

// block blocks a key, whose rows taken so far become void.
func (bs *blocks) block(k key, d *destination, c cause, ordinal int64) *block {
	b := bs.byKey[k]
	if b == nil {
		// The key's text lies among the bytes of other rows, which it would keep alive.
		k.text = strings.Clone(k.text)
		b = &block{key: k, index: -1, head: ordinal}
		bs.byKey[k] = b
		bs.bytes += len(k.text)
	}
	bs.leave(b)
	b.destination, b.cause, b.part, b.phase = d, c, nil, waiting
	b.generation++
	b.trying, b.closed = 0, false
	b.head = min(b.head, ordinal)
	// While the head cannot go, more of the key is of no use. What waits for others in its own key goes on in numbers.
	if b.want = 1; c == causeOrder || c == causeBehindFailed {
		b.want = wantAll
	}
	return b
}

// wantAll is more rows than a read returns.
const wantAll = 1 << 20

// leave takes b out of whatever it waits in.
func (bs *blocks) leave(b *block) {
	bs.due.cancel(b)
	if b.hold != nil {
		if b.phase != waiting { // b was its probe
			b.hold.probing = false
			bs.probes.set(b.hold)
		}
		delete(b.hold.blocks, b)
		b.hold = nil
	}
}

// waitUntil lets b wait for a time.
func (bs *blocks) waitUntil(b *block, due time.Time) {
	bs.leave(b)
	b.phase, b.due = waiting, due
	bs.due.set(b)
}

// waitFor lets b wait for a hold to end.
func (bs *blocks) waitFor(b *block, h *hold) {
	bs.leave(b)
	b.phase, b.hold = waiting, h
	if h.blocks == nil {
		h.blocks = map[*block]struct{}{}
	}
	h.blocks[b] = struct{}{}
}

// makeReady lets b be read again.
func (bs *blocks) makeReady(b *block) {
	bs.due.cancel(b)
	b.phase = ready
	bs.ready = append(bs.ready, b)
}

func (bs *blocks) remove(b *block) {
	bs.leave(b)
	delete(bs.byKey, b.key)
	bs.bytes -= len(b.key.text) + len(b.blamed)
}

// blame lets the counts of b be about this row.
func (bs *blocks) blame(b *block, r *row) {
	if b.blamed != r.ID() {
		bs.bytes += len(r.ID()) - len(b.blamed)
		b.blamed = strings.Clone(r.ID())
		b.unknown, b.accepted, b.refusals = 0, 0, 0
	}
}

// collect moves the blocks that are due to the ready ones.
func (bs *blocks) collect(now time.Time) {
	for b, ok := bs.due.past(now); ok; b, ok = bs.due.past(now) {
		bs.makeReady(b)
	}
}

// next returns up to n ready blocks, all with a key or all without, and begins their re-read: the one that has been ready for
// longest, and those whose heads follow its own, so that the read need not go far from one to the next.
func (bs *blocks) next(n int) []*block {
	bs.ready = slices.DeleteFunc(bs.ready, func(b *block) bool { // has moved on since it was put here
		return b.phase != ready || bs.byKey[b.key] != b
	})
	var like []*block
	for _, b := range bs.ready {
		if b.key.keyless == bs.ready[0].key.keyless {
			like = append(like, b)
		}
	}
	if len(like) > n {
		oldest := like[0]
		slices.SortStableFunc(like, func(a, b *block) int { return cmp.Compare(a.head, b.head) })
		like = like[min(slices.Index(like, oldest), len(like)-n):][:n]
	}
	for _, b := range like {
		b.phase, b.dropped, b.closed, b.older = reading, false, false, false
	}
	bs.ready = slices.DeleteFunc(bs.ready, func(b *block) bool { return b.phase == reading })
	return like
}

func (b *block) when() time.Time { return b.due }
func (b *block) place() *int     { return &b.index }
