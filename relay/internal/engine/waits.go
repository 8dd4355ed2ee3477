package engine

import (
	"cmp"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// A missing topic may stop a million keys, so a key that waits must be cheap: it takes some 45 bytes here, and some 200
// while it is read by itself. Nothing of its rows is kept. That costs one read when it goes on, of its first row, in a
// statement with up to 500 others.
//
// What ends the waiting is kept as well: the hold, whose end makes all of its keys go on, 500 at each turn so that a
// turn stays short, or the room. Keys that wait for room come back oldest first, as many in a second as are tried in
// vain at most. A key is in one of these lists only, and its place in the list outlives it: whether it still waits for
// this hold, by[key] says.
//
// Keys of a hold do not come back before it ends, apart from those that try it, and those whose rows a sweep finds
// changed. The first draft had bit sets instead, which were swapped after a sweep: a key that was dropped after the
// sweep had passed it was opened by the swap, and overtook; healthy keys with equal bits waited as well.

// waits are closed keys that cannot go on now: they wait for a hold, for a failed row, or for room. Of each only the
// hash is kept, which is enough to read it later, and no text.
type waits struct {
	by      map[uint64]waiter
	room    *hold   // those that wait for room; it is due when they are looked at next, and never ends
	blocked *hold   // those that have a failed row, where failed rows block their keys; it never ends
	freed   []*hold // holds that have ended: their keys may go on as soon as there is room
	strays  bool    // rows without a key were forgotten for which no hold is responsible

	// jammed says that there is no room to remember that a key waits. Nothing is taken from the tail then, which begins
	// again later.
	jammed bool
}

// A waiter is a key that waits. They are found by the keys' names.
type waiter struct {
	hold  *hold
	stamp uint32 // of the row that stopped it; 0 if that is not known
	shard int16
	met   uint8 // number of the last sweep that has met it, or of the last list of failed rows
	alone bool  // it is a row without a key
	due   bool  // see key.due
}

func (w *waits) has(key uint64) bool { _, has := w.by[key]; return has }

// wait makes a key wait for a hold, or for room, and forgets all of it but its hash. Rows of the key that are in flight
// stay so, and the key with them, until they have landed.
func (e *Engine) wait(k *key, h *hold) {
	var stamp uint32
	if len(k.queue) > 0 {
		stamp = stampOf(k.queue[0].Identity(), k.queue[0].topic)
	}
	e.shut(k, waiting)
	switch {
	// A row without a key is a key of its own, so a topic that is missing may stop a million of them. They have no
	// order to keep: they may take a fifth of the room, and beyond it sweeps try them now and then.
	case k.keyless && (h == e.waits.room || len(e.waits.by) >= e.Limits.Waiting/5):
		e.waits.strays = true
		e.reopen(k)
		return
	// A key that is neither remembered nor read in order would lose its order, so nothing more is taken from the tail.
	// This stops healthy keys as well, which is worse than anything but the loss of an order. The log has one line when
	// it happens, and the tail begins again by itself.
	case !k.keyless && len(e.waits.by) >= e.Limits.Waiting:
		if !e.waits.jammed {
			e.waits.jammed = true
			e.Logger.Error("nothing new is read: more keys wait than can be remembered", "keys", len(e.waits.by))
		}
		e.reopen(k)
		return
	}
	met := e.sweep.number
	if h == e.waits.blocked { // or the end of the present list would free what this list has blocked
		met = e.failed.number
	}
	h.join(e, k.name)
	e.waits.by[k.name] = waiter{hold: h, stamp: stamp, shard: int16(k.shard), met: met, alone: k.keyless, due: k.due}
	e.held[h.cause]++
	e.idle(k)
}

// unjam makes the tail go on, from the very beginning: what was not taken meanwhile was not noted with any key either.
// A tenth of the room must be free, or the tail would begin again for each key that goes on, only to stop at the next.
func (e *Engine) unjam() {
	if e.waits.jammed && len(e.waits.by) <= e.Limits.Waiting*9/10 {
		e.waits.jammed = false
		e.begins()
	}
}

// forgo forgets that a key waits, if it does.
func (e *Engine) forgo(key uint64) {
	if w, waits := e.waits.by[key]; waits {
		e.held[w.hold.cause]--
		delete(e.waits.by, key)
		w.hold.live--
	}
}

// resumes makes a key that waits be read at a time, and returns it; nil if there is no room. All of the room is meant
// here: what goes on may take the quarter that is closed to keys which are tried in vain.
func (e *Engine) resumes(key uint64, at time.Time) *key {
	if e.closed >= e.room(false) {
		return nil
	}
	w := e.waits.by[key]
	k := e.keyOf(key, w.due, w.alone, int(w.shard))
	e.shut(k, resting)
	e.again(k, at)
	return k
}

// promote lets keys go on that waited for a hold that has ended, or for room. Those of holds may take half of the last
// quarter of the room. At each turn 500 of them do, as many as one statement reads: along the index by key, PostgreSQL
// reads 100,000 keys of one row in 0.55 s. Holds take turns, so that a topic that is back does not wait for a million
// keys of another one.
func (e *Engine) promote(now time.Time) {
	w := &e.waits
	for n := mostAsked; len(w.freed) > 0 && n > 0; {
		h := w.freed[0]
		w.freed = w.freed[1:]
		if _, n = e.resumeSome(h, n, e.room(false)-e.Limits.Keys/8, now); h.live > 0 {
			w.freed = append(w.freed, h)
			break
		}
	}
	if w.room.live > 0 && !now.Before(w.room.due) {
		w.room.due = now.Add(time.Second)
		e.resumeSome(w.room, mostVain, e.room(true), now)
	}
}

// resumeSome lets up to n keys of a hold go on at a time, in the order in which they came, until so many keys are
// closed. It returns the first of them, and how many are left of n.
func (e *Engine) resumeSome(h *hold, n, closed int, at time.Time) (first *key, left int) {
	for n > 0 && h.live > 0 && e.closed < closed {
		if key := h.keys[0]; e.waits.by[key].hold == h {
			first = cmp.Or(first, e.resumes(key, at))
			n--
		}
		h.keys = h.keys[1:]
	}
	return first, n
}

// lose forgets the keys of shards that are not relayed any more. If the shards come back, the keys are met again: the
// tail reads everything from the beginning then. Rows on the wire and rows that are being written stay in flight until
// they have landed, and only the places of their keys in queues and lists are given up.
func (e *Engine) lose(lost owner.Set) {
	for key, w := range e.waits.by {
		if lost.Has(int(w.shard)) && e.keys[key] == nil {
			e.forgo(key)
		}
	}
	for _, k := range e.keys {
		// If a shard comes back before a refusal is written, its key is still closed (invariant 5 of this package).
		// With keys that were forgotten here too, one schedule in 36 to 1,700 let younger rows go first.
		if lost.Has(k.shard) && k.state != writing {
			e.shut(k, open)
			e.reopen(k)
		}
	}
}
