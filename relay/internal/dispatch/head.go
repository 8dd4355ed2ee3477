package dispatch

import (
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// lead makes a row the head of its key, which waits from now on. Later rows of the key in the lanes become void. It
// reports false if nothing more is to be done: something was passed over that goes before the row, and a scan brings
// both, either at once or after the refusal that the key waits for has been written.
func (d *Dispatch) lead(r *Row) (w *Wait, ok bool) {
	single := d.waits.byKey[r.Hash] != nil
	w, at := d.add(r.key, r.Hash, r.Shard), low(r)
	if crowd := d.waits.inCrowd(r.Hash); crowd != nil && !single && !d.brought(crowd, r) {
		w.low = min(w.low, crowd.low) // the crowd's scan has yet to bring what is before the row
	}
	switch {
	case w.state == writing:
		w.low, w.older = min(w.low, d.below(d.lowIn(w, r))), true
		return w, false
	case w.state == catching && w.covered != 0:
		passed := w.next
		if !d.catch.covers(w) || !d.brought(w, r) { // otherwise the scan has brought what is before the row
			passed = min(passed, w.low)
		}
		w.low = min(d.below(passed), at)
	case w.headID != "" && w.headID != r.ID():
		if w.low = min(w.low, w.head); d.ordered() && !d.beforeHead(w, r) {
			w.low = min(w.low, d.below(w.head))
		}
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

// restAlone makes a row wait for a moment if nothing known shares its fate.
func (d *Dispatch) restAlone(r *Row, c Cause, now time.Time) {
	if d.waits.noRoom(r.Hash) {
		d.crowd(r.Hash, low(r), now)
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
func (d *Dispatch) remember(r *Row) {
	if w := d.waits.byKey[r.Hash]; w != nil && w.headID == r.ID() {
		w.unknown, w.accepted = r.unknown, d.accepted
	}
}

// add returns the wait of a single key. If the key does not wait, or waits in a crowd, the wait is new and rests for no
// time.
func (d *Dispatch) add(k key, hash uint64, shard int) *Wait {
	w := d.waits.byKey[hash]
	if w != nil {
		if w.shard == noShard {
			w.shard = shard
		}
		return w
	}
	w = &Wait{hash: hash, key: key{keyless: k.keyless}, shard: shard, index: -1, head: nothing, low: nothing, next: nothing}
	if crowd := d.waits.inCrowd(hash); crowd != nil { // rows of the key may have been passed over
		if w.low = crowd.low; d.catch.covers(crowd) {
			w.low = crowd.next
		}
	}
	if d.named(k) {
		w.key.text = strings.Clone(k.text) // the text lies among the bytes of other rows
		d.waits.bytes += len(w.key.text)
	}
	d.waits.byKey[hash] = w
	return w
}

// named reports whether a key is remembered by its text, too, so that its rows can be read by it.
func (d *Dispatch) named(k key) bool {
	few := len(d.waits.byKey) < mostNamed && d.Table.KeyFiltered()
	return (few || d.Table.KeyIndexed()) && !k.keyless && len(k.text) <= mostKeyText
}

// mostNamed is among how many keys a few are looked for, and how many are remembered by their texts where nothing leads to the
// rows of a key.
const mostNamed = 1000

// mostKeyText is the largest length of a key, in bytes, by which rows are read.
const mostKeyText = 200
