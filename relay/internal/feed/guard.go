package feed

import (
	"math"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// guard lets rows with small priorities go while larger ones come all the time. Where the walk goes by priority, every eighth of its reads is
// made in table order instead, whatever the priorities, from the first pending row on to the last one that there was when the walk began.
// When it has come there, both begin again: keys that wait for that are not kept waiting by a walk that never ends.
//
// Both begin at the very beginning at the same time, and keys that wait are let go only then. So each of them, and both together, take of a key's
// rows with the same priority the first ones.
type guard struct {
	after outbox.Position
	upto  *int64 // the walk that goes on takes no row from here on; nil before the first page
	reads int    // of the walk since the last page
}

// readsPerGuard is how many reads are made by priority for one in table order.
const readsPerGuard = 7

// guards reports whether the next read of the walk is made in table order.
func (f *Feed) guards() bool {
	return !f.caughtUp && f.guard.reads >= readsPerGuard && f.order.Ranked() && f.order.Ordinal() && f.order.OrderIndexed()
}

// query completes a query for the next page.
func (g *guard) query(q outbox.Query) outbox.Query {
	q.Unranked, q.After, q.Upto, q.Horizon = true, g.after, g.upto, g.upto == nil
	return q
}

// read takes note of a page, and reports whether it was the last one.
func (g *guard) read(page outbox.Page) (ended bool) {
	if g.reads, g.after = 0, page.End; page.Horizon != nil {
		upto := int64(math.MinInt64)
		if highest := page.Horizon.Highest; highest != nil && *highest < math.MaxInt64 {
			upto = *highest + 1
		}
		g.upto = &upto
	}
	return !page.More
}
