package engine

import (
	"math"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// The tail's rows come in here. A row is taken if its key is open and nothing speaks against the order; else its key is
// closed, or the row is dropped because the key is closed already. The tail passes a row only once, so what is dropped
// has to be noted with its key (invariant 4): the key's own read brings it. That is all that is remembered of it.
//
// The same rows come again and again. Each first page begins at the low watermark, a second or more back, and sees
// everything that is in flight. A page of 500 rows of which none is new is the usual one in a calm hour.

// taken takes the rows of a tail's page. It returns how many of them were new.
func (e *Engine) taken(r *Read, now time.Time) (fresh int) {
	t := e.tailOf(r.Kind)
	dropped := 0
	rows, whole := e.page(t, r, now)
	// Dropped rows are counted too: a look that brings only rows of closed keys is in vain, and pays for it with a
	// rest.
	for i := range rows {
		switch row := &rows[i]; {
		case e.waits.jammed:
		case e.admit(row, r, now):
			fresh++
		default:
			dropped++
		}
	}
	// What is behind the first row in doubt comes again at once. Until then no key's own read goes on behind it: the
	// relay has read such a row, so a younger one that is read later must not go before it.
	for i := len(rows); i < len(r.Page.Rows); i++ {
		row := &r.Page.Rows[i]
		e.drops(nameOf(row.Hash, row.Delayed), row.Position.Ordinal)
	}
	if fresh > 0 {
		e.bell.active = now
	}
	if whole && !t.more {
		e.pace(t, r, fresh, dropped, now)
	}
	return fresh
}

// admit takes a row of a tail's page, unless it is known or its key is closed. It reports whether the row was new. The
// order of its questions matters: a known row says nothing about its key's order, and only a row that is new here may
// close the key.
func (e *Engine) admit(row *outbox.Row, read *Read, now time.Time) bool {
	if !e.shards.active.Has(row.Shard) {
		return false
	}
	name := nameOf(row.Hash, row.Delayed)
	// The same page begins at the low watermark each time, so most of its rows are in flight, or were settled since the
	// read began.
	known := e.isKnown(row.Identity(), read.number)
	moved := known && e.elsewhere(row.Identity(), name)
	k := e.keys[name]
	switch {
	case known && !moved:
		return false
	// Somebody has moved a row that is in flight to this key. Its former key's answer decides whether it is published
	// here at all, and until then no younger row of this key may pass it: the key is read by itself.
	case moved && (k == nil || k.state == open) && !e.waits.has(name),
		!moved && k != nil && e.follows(k, row, read.number): // it was committed late: all are read in order
		e.rest(e.keyOf(row.Hash, row.Delayed, keyless(row), row.Shard), causeOrder, now)
	}
	if e.drops(name, row.Position.Ordinal) || moved || e.waits.jammed {
		return false
	}
	k = e.keyOf(row.Hash, row.Delayed, keyless(row), row.Shard)
	if e.isHot(k) && e.closed < e.room(false) {
		// It leaves room to others: the rest of its rows is read in turn. What it has queued stays, since the tail
		// brought it in order, and goes on while the key is closed.
		e.enter(k, draining)
		k.rows, k.dropped = e.Limits.Batch, new(int64(math.MaxInt64)) // what is dropped from here on is read on
		e.readOn(k, row, e.tail.seen)
		if len(k.queue) == 0 && k.wire == 0 {
			e.further(k, now)
		}
		return false
	}
	return e.take(row, k, read, now)
}

// isHot reports whether a key has a quarter of all that may be in flight. One key cannot use more: it has one call at a
// time, and a call has at most Limits.Batch rows. Without this a key with a million pending rows would fill the memory,
// and every other key would wait for its calls. A long queue is enough: each row in it keeps the whole page in memory
// with which it came, of which it may be the tenth row. In a simulation, one key with 100,000 rows, of which the broker
// takes ten a call, filled the room without this, and the p99 of others was 19.3 s instead of 0.44.
func (e *Engine) isHot(k *key) bool {
	return len(k.queue) >= hotQueue || k.flying >= max(1, e.Limits.Rows/4) ||
		k.bytes >= e.Limits.Bytes/4 && k.flying > 0
}

// hotQueue is how many rows a key may have queued. With 256, and a tenth of the rows on one key, the relay took 62 to
// 71 MiB at RabbitMQ, where a key has one unconfirmed row at a time; with 100 it took 61 and 62, and 105 without this
// limit.
const hotQueue = 100

// begins makes the tails begin at the very beginning: shards were gained, or rows were not taken for want of memory. A
// page that is under way is not taken (invariant 6). There is no state of a shard that is being gained: a sweep that
// looked for its rows while the tail went on let the tail bring younger ones first.
func (e *Engine) begins() {
	if e.waits.jammed { // they do so later, and the sweep goes as far as the tail has come
		return
	}
	e.restart(&e.tail)
	e.restart(&e.dueTail)
	e.failed.on, e.failed.ended = false, time.Time{} // what is read again may have failed rows that are not known
	e.reads.stale = e.reads.under[slot(Tail)] != nil
}

// rereadDue makes the tail of due rows start again, since no sweep finds what it has missed: rows that were made
// pending again, and rows that were forgotten while a hold lasted.
func (e *Engine) rereadDue() {
	e.restart(&e.dueTail)
	if r := e.reads.under[slot(Due)]; r != nil && r.Kind == Due {
		e.reads.stale = true
	}
}
