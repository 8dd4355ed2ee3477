package relay

import (
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// lead makes a row the head of its key, which waits from now on. What is behind it in the lanes becomes void. It reports false if
// there is no more to do: something was passed over that goes before the row, and a scan brings both, at once or when the refusal has been
// written that the key waits for.
func (d *dispatch) lead(r *row) (w *wait, ok bool) {
	w, at := d.add(r.key, r.hash, r.Shard), low(r)
	switch {
	case w.state == writing:
		w.low, w.older = min(w.low, at), true
		return w, false
	case w.state == catching && w.covered != 0:
		if d.catch.covers(w) {
			w.low = w.next // what is before it has been brought
		}
		w.low = min(w.low, at)
	case w.headID != "" && w.headID != r.ID():
		w.low = min(w.low, w.head)
	}
	if w.delayed = r.Delayed; w.delayed { // nothing goes before it
		w.low = nothing
	}
	d.waits.heads(w, r.ID())
	w.head, w.number, w.older, w.covered = at, r.number, false, 0
	if d.void = true; w.low < at {
		d.catchUp(w)
		return w, false
	}
	return w, true
}

// restAlone lets a row wait for a moment that shares its fate with nothing that is known.
func (d *dispatch) restAlone(r *row, c cause, now time.Time) {
	if d.waits.noRoom(r.hash) {
		d.crowd(r.hash, low(r), now)
		return
	}
	w, ok := d.lead(r)
	if !ok {
		return
	}
	w.failures++
	d.waits.rest(w, c, now.Add(retry.PauseAmong(d.causes(), w.failures)))
}

// remember keeps what is known of a head that leaves memory.
func (d *dispatch) remember(r *row) {
	if w := d.waits.byKey[r.hash]; w != nil && w.headID == r.ID() {
		w.unknown, w.accepted = r.unknown, d.accepted
	}
}

// add returns the wait of a key alone, which is new, and rests for no time, if the key is in none or in a crowd.
func (d *dispatch) add(k key, hash uint64, shard int) *wait {
	w := d.waits.byKey[hash]
	if w != nil {
		return w
	}
	w = &wait{hash: hash, shard: shard, index: -1, head: nothing, low: nothing, next: nothing}
	if crowd := d.waits.inCrowd(hash); crowd != nil { // something of the key may have been passed over
		if w.low = crowd.low; d.catch.covers(crowd) {
			w.low = crowd.next
		}
	}
	if d.table.KeyIndexed() && !k.keyless && len(k.text) <= mostKeyText {
		w.text = strings.Clone(k.text) // it lies among the bytes of other rows
		d.waits.bytes += len(w.text)
	}
	d.waits.byKey[hash] = w
	return w
}

// mostKeyText is how long a key may be for its rows to be read by it.
const mostKeyText = 200
