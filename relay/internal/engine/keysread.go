package engine

import (
	"container/heap"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// Closed keys are read here, hundreds in a statement, each from its first pending row. This is the only source of their
// rows (invariant 4). A read says for each key whether it has brought everything that is left of it; then, if the tail
// has dropped nothing of the key since the read began, the key opens, and its next rows come from the tail.
//
// A key with many rows takes many reads. Like pages of the tail they go on where the last one has ended, and are taken
// up to the first row that the first one may not have seen: an older row may have been committed since, at a place that
// was passed. Then the key is read from its beginning again. If each read began there, it would bring all rows in
// flight again: for a key with a tenth of 300,000 rows, the relay took twice its memory. It would also go over the
// entries of relayed rows that no vacuum has removed: 200,000 rows took 2.1 s of PostgreSQL instead of 0.4.
//
// Why nothing gets lost between the two: what the read's snapshot sees is queued. What it does not see is committed
// later, and the tail's next first page, which begins after this, sees it.

// keysDue returns when the next read of keys may begin, if there is one: when the first resting key is due, there is
// room, and the pace of tries in vain allows it. None begins while very many rows were settled during one slow read of
// another kind: all of them have to be remembered until that read has ended.
func (e *Engine) keysDue() (at time.Time, ok bool) {
	// While a sweep hangs for 27 seconds, 30,000 rows a second would make gone hold 800,000 identities.
	if len(e.resting) == 0 || len(e.gone) >= e.Limits.Rows || e.freeRows(0) <= 0 {
		return at, false
	}
	if bytes, _ := e.freeBytes(Keys); bytes == 0 {
		return at, false
	}
	return e.resting[0].until, true
}

const (
	// shortRest is the rest before a key is read again of which no row could be taken: most often its rows are being
	// marked, which takes a few milliseconds.
	shortRest = 2 * time.Millisecond

	// mostAsked is how many keys one statement reads. Along the index by key one takes 5.5 µs and four buffers, so
	// that 500 are read in about 3 ms. Without the index they cost one pass over the pending rows, as one key does:
	// 14 ms for 100,000 rows.
	mostAsked = 500

	// mostVain is how many keys are tried a second after so many tries in vain that no key went on meanwhile. Each try
	// is a read and a publish that other rows do not get: with 10,000 missing topics beside 1,000 rows a second,
	// PostgreSQL read 1.7 to 1.8 times as many rows as without. In a simulation of 100,000 refused keys without this
	// limit, the p99 of other rows was 284 ms instead of 49.
	mostVain = 500
)

// readKeys returns the read of keys whose time has come, those that have waited longest first. A key's rows in flight
// come again with it, since they are pending in the table until they are marked: they are asked for in addition, or a
// key with more of them than its limit would never get on.
func (e *Engine) readKeys(now time.Time) *Read {
	// One statement reads by one index, in table order or by available_at: that of the key that has waited longest.
	due := e.resting[0].due
	q := outbox.Query{Due: due}
	q.Bytes, q.First = e.freeBytes(Keys)
	room, most := e.freeRows(0), mostAsked
	if e.vain > mostVain {
		most = mostVain / 10
	}
	var others []*key // whose rows have the other index
	for len(e.resting) > 0 && !e.resting[0].until.After(now) && len(q.Asks) < most && room > 0 {
		k := e.resting[0]
		n := min(k.rows, room)
		e.enter(k, reading)
		if k.due != due {
			others = append(others, k)
			continue
		}
		ask := outbox.Ask{Hash: k.hash()}
		if k.seen != nil && !k.isLate() {
			// The last row of the read before comes again with it.
			ask.From, ask.Limit = new(k.last), n+1
		} else {
			// From its very beginning. What the tail drops from here on is not certain to be in this read.
			ask.Limit, k.seen, k.dropped = n+k.flying, nil, nil
		}
		room -= n
		q.Rows += ask.Limit
		q.Asks = append(q.Asks, ask)
	}
	for _, k := range others {
		e.again(k, k.until)
	}
	if e.vain > mostVain {
		e.reads.rests[Keys] = now.Add(time.Duration(len(q.Asks)) * time.Second / mostVain)
	}
	return &Read{Kind: Keys, query: q}
}

// took queues the rows of keys that were read, each key by itself: what is wrong with one concerns no other. It returns
// how many rows were new. Meanwhile a key may have been lost with its shard and won again. It is in another state then:
// no read of keys has begun since.
func (e *Engine) took(r *Read, now time.Time) (fresh int) {
	for i, ask := range r.query.Asks {
		k := e.keys[nameOf(ask.Hash, r.query.Due)]
		if k == nil || k.state != reading {
			continue // its shard was lost
		}
		switch {
		case r.Err != nil:
			e.again(k, now.Add(e.pause(k.tries)))
		case r.Page.Wants > 0: // as soon as there is room: the tail leaves it free meanwhile
			e.again(k, k.until)
		default:
			fresh += e.drain(k, r.Page.Keys[i], r, now)
		}
	}
	return fresh
}

// drain queues the first rows of a key. If nothing of it is left in the table, and the tail has dropped nothing
// meanwhile, then everything that the read saw is in flight, and what it did not see comes after the tail's next page
// began: the key is open.
func (e *Engine) drain(k *key, page outbox.KeyRows, r *Read, now time.Time) (fresh int) {
	seen, goesOn := k.seen, k.seen != nil
	if len(page.Rows) == 0 && !page.All || goesOn && k.isLate() {
		// The other keys have taken all of the read's room, which says nothing about this one, or an older row has come
		// meanwhile, so that the key is read from its beginning. It is asked for again as it was, before those that
		// have become due since, with few rows, and goes on trying its hold.
		e.again(k, k.until)
		return 0
	}
	// Only if the read has brought the last row, and the tail has dropped none of the key meanwhile, is everything that
	// is pending of the key in its queue. A row that fits nowhere below takes that back.
	all := page.All && k.dropped == nil
	if !goesOn {
		seen = new(r.Page.Visible)
	}
	ended := seen.FirstEnded(&r.Page.Visible)
	for i := range page.Rows {
		row := &page.Rows[i]
		if goesOn && !seen.Certain(row.Writer, e.Table.Exact(), ended) {
			k.seen, all = nil, false
			break
		}
		// A row may have got another key since its hash was taken from the index. It is passed over here, and the tail
		// or the sweep brings it with its own key.
		mine := nameOf(row.Hash, row.Delayed) == k.name
		if e.freeRows(0) <= 0 {
			all = false
			break
		}
		e.readOn(k, row, seen)
		if mine && !e.isKnown(row, r.number) {
			e.take(row, k, r, now)
			fresh++
		}
	}
	if page.All || fresh == 0 {
		k.seen = nil
	}
	k.tried = fresh > 0
	if h := k.hold; h != nil &&
		(len(k.queue) == 0 || len(h.topics) > 0 && e.holds.topics[addressOf(k.queue[0])] != h) {
		e.unprobe(k) // what was to try it is gone, or has another topic
	}
	switch {
	case all:
		e.reopen(k)
	// Only rows that are in flight already, or none that may be taken: the next read asks for more.
	case len(k.queue) == 0 && k.wire == 0:
		e.further(k, now.Add(shortRest))
	default:
		e.enter(k, draining)
	}
	return fresh
}

// readOn makes the next read of a key go on at a row. Everything of the key before it that seen sees is in flight or
// settled. A key is read on only where order values can be compared. Elsewhere, and among rows that are read by their
// available_at, each of its reads begins at its beginning.
func (e *Engine) readOn(k *key, at *outbox.Row, seen *outbox.Visible) {
	if e.ordered() && !k.due {
		k.seen, k.last = seen, at.Position.Ordinal
	}
}

// isLate reports whether the tail has dropped a row before the place where the key's next read would go on. It was
// committed late, and goes first. The row at that place itself is no exception: several rows may have its order value.
func (k *key) isLate() bool { return k.dropped != nil && *k.dropped <= k.last }

// further makes the next rows of a key be read, eight times as many as before, up to a batch, so that a long key costs
// few reads and a short one few rows.
func (e *Engine) further(k *key, at time.Time) {
	k.rows = min(8*k.rows, e.Limits.Batch)
	e.again(k, at)
}

// again makes a key rest that keeps its place.
func (e *Engine) again(k *key, at time.Time) { e.until(k, causeOrder, at) }

// until makes a key rest until a time. Keys that are tried again gather for a moment: a statement for one key costs
// almost as much as one for a hundred.
func (e *Engine) until(k *key, c Cause, at time.Time) {
	if c != causeOrder {
		at = gathered(at)
	}
	e.enter(k, resting)
	k.until, k.cause = at, c
	e.held[c]++
	heap.Push(&e.resting, k)
}

// gathered returns the end of the interval of 30 ms in which a time lies. Unlike [time.Time.Truncate] it keeps the
// monotonic clock: nothing rests longer when the machine's clock is set back.
func gathered(at time.Time) time.Time {
	return at.Add(gatherTries - time.Duration(at.UnixNano())%gatherTries)
}

// gatherTries is the interval in which tries gather. The rows wait for at most that much longer than their backoff.
const gatherTries = 30 * time.Millisecond
