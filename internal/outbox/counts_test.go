package outbox

import (
	"context"
	"fmt"
	"strconv"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// Counts are the numbers of one view's rows, capped at [CountCap]. A nil number is not known: no index makes it cheap,
// or too many rows of other destinations are in the way.
type Counts struct {
	Pending, Scheduled, Failed *int64
	// seconds for which the oldest of the first pending rows has been due; 0 without rows
	Oldest *float64
}

// Count counts the view's rows.
func (t *Table) Count(ctx context.Context) (Counts, error) {
	const mine, others = 0, 1
	takers := Takers{SQL: strconv.Itoa(mine), Numbers: []int{mine}}
	if t.view.Columns == nil && t.mapping.Taken != pattern.Always {
		takers.SQL = fmt.Sprintf("case when %s then %d else %d end", t.mapping.Taken, mine, others)
		takers.Divided = true
	}
	tally, err := t.Tally(ctx, takers)
	b := tally[mine]
	return Counts{Pending: b.Gauge(Due), Scheduled: b.Gauge(Scheduled), Failed: b.Gauge(Failed), Oldest: b.OldestAgeSeconds}, err
}
