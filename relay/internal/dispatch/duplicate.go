package dispatch

import (
	"hash/maphash"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/keys"
)

// duplicate handles the answer that the broker already holds a message with the row's id. After a publish without an
// answer, or for a row that the shard's last owner may have sent, this is what message ids are for. Any other row
// shares its id with another message, and the broker has dropped it. Such a row is marked anyway, since it would be
// dropped each time, but the log reports it.
func (a *answers) duplicate(r *Row, d *publisher.Duplicate) {
	if r.unknown > 0 || a.sent.has(r) || !a.newHere(r) {
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

// sent remembers rows that this replica has sent, by the hash of their ids: rows whose outcome is unknown, which may
// leave memory before they are published again, and recently accepted rows, which an operator may want to be sent
// again.
type sent struct{ unknown, accepted keys.Recent }

func sentHash(r *Row) uint64 { return maphash.String(seed, r.Identity()) }

func (s *sent) noteUnknown(r *Row) { s.unknown.Add(sentHash(r)) }

func (s *sent) noteAccepted(r *Row) { s.accepted.Add(sentHash(r)) }

func (s *sent) has(r *Row) bool {
	hash := sentHash(r)
	return s.unknown.Has(hash) || s.accepted.Has(hash)
}
