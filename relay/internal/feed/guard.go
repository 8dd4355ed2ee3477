package feed

import (
	"math"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// guard lets rows with small priorities go while rows with larger ones come all the time. Where the tail scan goes by
// priority, every eighth of its reads is made in table order instead, whatever the priorities. These reads go from the
// first pending row to the last one that existed when the tail scan began. When they have reached it, both the guard and the
// tail scan begin again. So keys that wait for a new tail scan do not wait for a tail scan that never ends.
//
// The guard and the tail scan begin at the very beginning at the same time, and keys that wait may go on only then. So each
// of them, and both together, take rows of a key with the same priority from the first on.
type guard struct {
	after outbox.Position
	upto  *int64 // rows from here on are not taken; nil before the first page
	reads int    // reads of the tail scan since the last page of the guard
}

// readsPerGuard is the number of reads by priority for each read in table order.
const readsPerGuard = 7

// guards reports whether the next read of the tail scan is made in table order.
func (f *Feed) guards() bool {
	return !f.caughtUp && f.guard.reads >= readsPerGuard && f.order.Ranked() && f.order.Ordinal() && f.order.OrderIndexed()
}

// query completes a query for the next page, within the horizon of the tail scan.
func (g *guard) query(q outbox.Query, within *outbox.Horizon) outbox.Query {
	q.Unranked, q.After, q.Upto, q.Horizon, q.Within = true, g.after, g.upto, g.upto == nil, within
	return q
}

// read records a page, and reports whether it was the last one.
func (g *guard) read(page outbox.Page) (ended bool) {
	if g.reads, g.after = 0, page.End; page.Horizon != nil {
		upto := int64(math.MinInt64)
		if highest := page.Horizon.Highest; highest != nil {
			if upto = *highest; upto < math.MaxInt64 {
				upto++
			}
		}
		g.upto = &upto
	}
	return !page.More
}
