package outbox

import (
	"context"
	"errors"
)

// settle settles rows, and returns an error also if some of them were not settled.
func settle(ctx context.Context, t *Table, rows []*Row) error {
	unwritten, err := t.Settle(ctx, rows, false)
	for _, why := range unwritten {
		err = errors.Join(err, why)
	}
	return err
}

// settleFree settles the rows that no other session keeps locked, and returns the others, in order. Its error is one
// also if a row was not settled for another reason.
func settleFree(ctx context.Context, t *Table, rows []*Row) (locked []string, err error) {
	unwritten, err := t.Settle(ctx, rows, true)
	for _, r := range rows {
		if why := unwritten[r.Identity()]; errors.Is(why, ErrLocked) {
			locked = append(locked, r.Identity())
		} else {
			err = errors.Join(err, why)
		}
	}
	return locked, err
}

// refuse writes refusals, and returns those that were written and those whose rows are locked, in order.
func refuse(ctx context.Context, t *Table, refusals []Refusal) (written, locked []string, err error) {
	unwritten, err := t.Refuse(ctx, refusals)
	for _, r := range refusals {
		if why := unwritten[r.Identity()]; why == nil {
			written = append(written, r.Identity())
		} else if errors.Is(why, ErrLocked) {
			locked = append(locked, r.Identity())
		}
	}
	return written, locked, err
}

// refusal refuses an attempt at any version of a row.
func refusal(identity string, attempt int64, why string) Refusal {
	return Refusal{Row: &Row{Position: At(0, identity), Attempt: attempt}, Error: why}
}

// failure is a refusal for good.
func failure(identity string, attempt int64, why string) Refusal {
	r := refusal(identity, attempt, why)
	r.Failed = true
	return r
}
