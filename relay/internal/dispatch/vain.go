package dispatch

import (
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
)

// vain lets a destination rest that refuses everything, while rows of other destinations flow. To publish a row and to write
// its refusal takes more of the machine than to relay a row, and there is no hurry: such a destination is probably configured
// wrongly. If it is the only one, or as soon as it accepts a row, it does not rest. Beside such a destination, another one keeps 0.99
// of its rate, and 0.84 without the rests (test/bench, destinations).
//
// Where heads of very many keys are tried in vain, they leave most of the time to the rows of other keys. Only the dispatch touches it.
type vain struct {
	refused int       // rows that were refused since the last acceptance
	until   time.Time // end of the rest
	heads   int       // tries of heads since one was accepted
}

const (
	vainAfter   = 1000 // rows
	longestVain = time.Second
)

// answered notes the answers for a batch, of heads or of other rows.
func (v *vain) answered(counts map[publisher.Class]int, rows int, heads bool) {
	if counts[publisher.Accepted] > 0 {
		v.refused, v.until = 0, time.Time{}
	}
	v.refused += counts[publisher.Refused] + counts[publisher.Permanent]
	switch {
	case !heads:
	case counts[publisher.Accepted] > 0:
		v.heads = 0
	default:
		v.heads += rows - counts[publisher.NotAttempted]
	}
}

// restInVain notes how long a publish took, or a write of refusals.
func (d *Dispatch) restInVain(took time.Duration, now time.Time) {
	if d.vain.refused < vainAfter || !d.Beside(now) {
		return
	}
	if until := now.Add(min(feed.RestShare*took, longestVain)); until.After(d.vain.until) {
		d.vain.until = until
	}
}
