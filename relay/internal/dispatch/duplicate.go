package dispatch

import (
	"hash/maphash"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// duplicate handles the answer that the broker already holds a message with the row's id. After a publish without an
// answer, or for a row that the shard's last owner may have sent, this is what message ids are for. Any other row
// shares its id with another message, and the broker has dropped it. Such a row is marked anyway, since it would be
// dropped each time, but the log reports it.
func (a *answers) duplicate(r *Row, d *publisher.Duplicate) {
	if r.unknown > 0 || a.wasSent(r) || !a.newHere(r) {
		return
	}
	a.unexpected++
	if !a.To.Reported.Duplicates(d.Stream) {
		return
	}
	a.Logger.Warn("rows that were never sent are dropped by their broker as duplicates and count as relayed",
		"stream", d.Stream, "error", d)
}

// newHere reports whether the row was inserted after this replica acquired its shard, judged by its insertion time. A
// time that is far ahead of this replica's clock was not taken from a clock.
func (a *answers) newHere(r *Row) bool {
	inserted, since := r.Message.Inserted, a.shards.since[r.Shard]
	const skew = time.Minute
	return !inserted.IsZero() && !inserted.Before(since) && inserted.Before(a.now.Add(skew))
}

// sentHash identifies a row among those that this replica has sent.
func sentHash(r *Row) uint64 { return maphash.String(seed, r.Identity()) }

// wasSent reports whether this replica has sent a row and remembers it: its outcome is unknown, or it was accepted.
func (d *Dispatch) wasSent(r *Row) bool {
	hash := sentHash(r)
	return d.sentUnknown.Has(hash) || d.sentAccepted.Has(hash)
}
