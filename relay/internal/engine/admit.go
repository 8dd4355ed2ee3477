package engine

import (
	"math"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// The tail's rows come in here. A row is taken if its key is open and nothing speaks against the order; else its key is
// closed, or the row is dropped because the key is closed already. The tail passes a row only once, so what is dropped
// has to be noted with its key (invariant 4): the key's own read brings it. That is all that is remembered of it.
//
// The same rows come again and again. Each first page begins at the low watermark, a second or more back, and sees
// everything that is in flight. A page of 500 rows of which none is new is the usual one in a calm hour.

// taken takes the rows of a tail's page. It returns how many of them were new.
func (e *Engine) taken(r *Read, armed, now time.Time) (fresh int) {
	t := &e.tails[r.Kind]
	rows, whole := e.page(t, r, now)
	useless := t.more && len(rows) > 0
	for i := range rows {
		added, known := e.admit(&rows[i], r, now)
		if added {
			fresh++
		}
		useless = useless && !added && !known
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
	if useless { // nothing of this part of a backlog can go: others get half of the time, unless the server was stuck
		e.reads.rests[r.Kind] = later(e.reads.rests[r.Kind], now.Add(min(now.Sub(r.began), time.Second)))
	}
	if whole && !t.more {
		// Dropped rows are counted too: a look that brings only rows of closed keys is in vain, and pays for it with a
		// rest.
		e.pace(t, r, fresh, len(rows)-fresh, armed, now)
	}
	return fresh
}

// admit takes a row of a tail's page, unless it is known or its key is closed. The order of its questions matters: a
// known row says nothing about its key's order, and only a row that is new here may close the key.
func (e *Engine) admit(row *outbox.Row, read *Read, now time.Time) (added, known bool) {
	if e.waits.jammed || !e.shards.active.Has(row.Shard) {
		return false, false
	}
	name := nameOf(row.Hash, row.Delayed)
	// The same page begins at the low watermark each time, so most of its rows are in flight, or were settled since the
	// read began.
	if e.isKnown(row, read.number) {
		return false, true
	}
	k := e.keys[name]
	if k != nil && e.follows(k, row, read.number) { // it was committed late: all are read in order
		e.rest(k, causeOrder, now)
	}
	if e.drops(name, row.Position.Ordinal) || e.waits.jammed {
		return false, false
	}
	k = e.keyOf(name, row.Delayed, row.Message.Key == nil, row.Shard)
	// A key that has a quarter of all that may be in flight is hot. It cannot use more: it has one call at a time, of
	// at most Limits.Batch rows. Without this a key with a million pending rows would fill the memory, and every other
	// key would wait for its calls. A long queue is enough: each row in it keeps the whole page in memory with which it
	// came, of which it may be the tenth row. In a simulation, one key with 100,000 rows, of which the broker takes ten
	// a call, filled the room without this, and the p99 of others was 19.3 s instead of 0.44.
	isHot := len(k.queue) >= hotQueue || k.flying >= max(1, e.Limits.Rows/4) ||
		k.flying > 0 && int64(k.flying*(row.Message.Size()+rowOverhead)) >= e.Limits.Bytes/4
	if isHot && e.closed < e.room(false) {
		// It leaves room to others: the rest of its rows is read in turn. What it has queued stays, since the tail
		// brought it in order, and goes on while the key is closed.
		e.enter(k, draining)
		k.rows, k.dropped = e.Limits.Batch, new(int64(math.MaxInt64)) // what is dropped from here on is read on
		e.readOn(k, row, e.tails[Tail].seen)
		if len(k.queue) == 0 && k.wire == 0 {
			e.further(k, now)
		}
		return false, false
	}
	e.take(row, k, read, now)
	return true, false
}

// hotQueue is how many rows a key may have queued. With 256, and a tenth of the rows on one key, the relay took 62 to
// 71 MiB at RabbitMQ, where a key has one unconfirmed row at a time; with 100 it took 61 and 62, and 105 without this
// limit.
const hotQueue = 100

// isKnown reports whether a row is in flight, or was when the read began that has brought it. One that is in flight
// under another key, which somebody has changed since, is taken as it is now: people move a row that is refused to
// another key. What is in flight of it cannot be marked any more. Were it known, a younger row of its new key would go
// first: in a simulation, that one was delivered after 47 ms, and the moved row after 4 minutes and 40 seconds.
func (e *Engine) isKnown(r *outbox.Row, read uint64) bool {
	if f := e.flying[r.Identity()]; f != nil {
		return f.key.name == nameOf(r.Hash, r.Delayed)
	}
	gone, is := e.gone[r.Identity()]
	return is && gone >= read
}

// follows reports whether a queued row of the key comes after another one, or may. Only the database knows the order of
// equal order values, but the rows of a read are in order; and rows after the cursor come after all that the tail has
// brought. Without this rule, rows of writers that are not serialised were queued after younger ones that had not been
// handed over yet: random schedules found it.
func (e *Engine) follows(k *key, r *outbox.Row, read uint64) bool {
	n := len(k.queue)
	if n == 0 || r.Delayed {
		return false
	}
	last := k.queue[n-1]
	if !e.ordered() {
		return last.read != read && !r.After
	}
	at := last.Position.Ordinal
	return r.Position.Ordinal < at || r.Position.Ordinal == at && last.read != read
}

// drops reports whether a row that the tail has read is dropped, since its key is closed. The lowest ordinal that was
// dropped is noted: the key does not open before a read that began later has brought it, nor is it read on after it. Of
// a key that waits nothing is noted, since it will be read from its beginning.
func (e *Engine) drops(key uint64, ordinal int64) bool {
	k := e.keys[key]
	if k == nil || !isClosed(k.state) {
		return e.waits.has(key)
	}
	if k.dropped == nil || ordinal < *k.dropped {
		k.dropped = &ordinal
	}
	return true
}

// take queues a row that was read. It is the only way into flying (invariant 1), for the rows of the tail as for those
// of a key's own read. Both have made sure before that the row is not known, and that it may follow what is queued of
// its key.
func (e *Engine) take(r *outbox.Row, k *key, from *Read, now time.Time) {
	row := &Row{Row: r, key: k, read: from.number, Try: r.Attempt, topic: r.Message.Topic}
	if k.refused > 0 && !e.Table.KeepsAttempts() && k.blamed == stampOf(r.Identity(), row.topic) {
		row.Try += k.refused
	}
	// The time since the last refusal comes from the database, so a backoff ends at the same time after a restart. If
	// it is negative, that clock was set back, and a key that was refused here has waited by the relay's clock already.
	if r.Retried && (r.Waited >= 0 || k.refused == 0) {
		row.after = now.Add(retry.Backoff(e.BackoffMin, e.BackoffMax, r.Message.ID, row.Try) - max(0, r.Waited))
	}
	// So does its age: the relay's own clock may differ by minutes. The database's was later than this by now.
	if there := from.Page.Visible.Now; e.MaxAge > 0 && e.Table.KeepsFailures() && !r.Due.IsZero() && !there.IsZero() {
		row.expires = now.Add(r.Due.Add(e.MaxAge).Sub(there))
	}
	e.Prepare(row, now)
	row.Size = int64(r.Message.Size()) + rowOverhead
	e.flying[r.Identity()] = row
	e.bytes += row.Size
	e.queued++
	e.shards.flying[r.Shard]++
	k.flying++
	if k.queue = append(k.queue, row); len(k.queue) == 1 { // else it is listed, or has a call
		e.list(k)
	}
}

// list lists a key whose rows can be published, once. Keys that were not accepted the last time have a list of their
// own: their call may stay without an answer until the publish timeout, and would keep the lanes of the others busy.
func (e *Engine) list(k *key) {
	if k.ready || k.wire > 0 || len(k.queue) == 0 {
		return
	}
	k.ready = true
	i := 0
	if k.hold != nil || k.tries > 0 || k.unanswered > 0 || k.queue[0].Retried {
		i = 1
	}
	e.ready[i] = append(e.ready[i], k)
}

// dueKeys distinguishes the keys of rows that are read by their available_at from those of rows in table order. The
// statements that read such rows name each by its id, so they keep no order, and no other row waits for them. The two
// kinds have different indexes, and a statement that reads keys follows one of them.
const dueKeys = 0x9e3779b97f4a7c15

// nameOf returns the name by which the engine knows a key with a hash, and the hash of a key with a name. The hash is
// the database's, of eight bytes, so that a key can be read without its text. Two keys with the same hash are one key
// here: they wait together and keep one order, so a collision costs time and never the order. The model of this engine
// had a hash of its own and asked for one of the two keys only, so that rows of the other were overtaken. A row without
// a key whose id has the hash of a key in trouble would make that key one of a row without a key. Nothing guards it
// against that: beside a million such keys, one row in ten trillion has such an id.
func nameOf(hash uint64, due bool) uint64 {
	if due {
		return hash ^ dueKeys
	}
	return hash
}

// keyOf returns a key, which becomes known. Rows that are read by their available_at are keys of their own, whatever
// their key.
func (e *Engine) keyOf(name uint64, due, keyless bool, shard int) *key {
	k := e.keys[name]
	if k == nil {
		k = &key{name: name, due: due, keyless: keyless || due, shard: shard, place: -1}
		e.keys[name] = k
	}
	return k
}
