package relay

import (
	"hash/maphash"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/keys"
)

// duplicate takes note that a broker took a row for a message that it holds already. After a publish without an answer, and
// of a row that the shard's last owner may have sent, that is what message ids are for. Any other row has its id in common with
// another message, and its broker has dropped it: it is marked all the same, since it would be dropped each time, but not in silence.
func (a *answers) duplicate(r *row, d *publisher.Duplicate) {
	if r.unknown > 0 || a.sent.has(r) || !a.newHere(r) {
		return
	}
	a.unexpected++
	told := a.to.duplicated
	if _, is := told[d.Stream]; is || len(told) == mostTold {
		return
	}
	if told == nil {
		told = map[string]struct{}{}
		a.to.duplicated = told
	}
	told[d.Stream] = struct{}{}
	a.logger.Warn("rows that were never sent are dropped by their broker as duplicates and count as relayed", "destination", a.to.Name, "stream", d.Stream, "error", d)
}

// mostTold bounds the streams of which duplicates are told.
const mostTold = 1000

// newHere reports whether the row was inserted since this replica came to hold its shard, as far as its time tells. A time that is
// far ahead of our clock was not taken from one.
func (a *answers) newHere(r *row) bool {
	inserted, since := r.Message.Inserted, a.shards.since[r.Shard]
	const skew = time.Minute
	return !inserted.IsZero() && !inserted.Before(since) && inserted.Before(a.now.Add(skew))
}

// sent remembers rows that this replica has sent, by the hash of their ids: those whose outcome is not known, which may leave
// memory before they are published again, and recent ones that were accepted, which somebody may want to be sent again.
type sent struct{ unknown, accepted keys.Recent }

func sentHash(r *row) uint64 { return maphash.String(seed, r.Identity()) }

func (s *sent) noteUnknown(r *row) { s.unknown.Add(sentHash(r)) }

func (s *sent) noteAccepted(r *row) { s.accepted.Add(sentHash(r)) }

func (s *sent) has(r *row) bool {
	hash := sentHash(r)
	return s.unknown.Has(hash) || s.accepted.Has(hash)
}
