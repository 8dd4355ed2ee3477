package relay

import (
	"hash/maphash"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
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
type sent struct {
	unknown, older map[uint64]struct{} // the last of them, and some more
	accepted       recents
}

const sentUnknown = 1 << 15

func sentHash(r *row) uint64 { return maphash.String(seed, r.Identity()) }

func (s *sent) noteUnknown(r *row) {
	if s.unknown == nil || len(s.unknown) == sentUnknown {
		s.unknown, s.older = map[uint64]struct{}{}, s.unknown
	}
	s.unknown[sentHash(r)] = struct{}{}
}

func (s *sent) noteAccepted(r *row) { s.accepted.add(sentHash(r)) }

func (s *sent) has(r *row) bool {
	hash := sentHash(r)
	_, unknown := s.unknown[hash]
	_, older := s.older[hash]
	return unknown || older || s.accepted.has(hash)
}

// recents is a Bloom filter of the last recentMost hashes at least, and at most twice as many. It forgets none of them, and takes
// fewer than one in 500 others for one of them.
type recents struct {
	recent, older []uint64
	n             int // in recent
}

const (
	recentMost = 1 << 17
	recentBits = 16 * recentMost
	recentEach = 6 // bits of a hash
)

func (c *recents) add(hash uint64) {
	if c.recent == nil || c.n == recentMost {
		c.recent, c.older, c.n = make([]uint64, recentBits/64), c.recent, 0
	}
	c.n++
	for i := range uint64(recentEach) {
		at := recentBit(hash, i)
		c.recent[at/64] |= 1 << (at % 64)
	}
}

func (c *recents) has(hash uint64) bool { return among(c.recent, hash) || among(c.older, hash) }

func among(bits []uint64, hash uint64) bool {
	if bits == nil {
		return false
	}
	for i := range uint64(recentEach) {
		if at := recentBit(hash, i); bits[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

func recentBit(hash, i uint64) uint64 { return (hash + i*(hash>>32|1)) % recentBits }
