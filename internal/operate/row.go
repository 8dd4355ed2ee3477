package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// RowsOf returns where rows are at each destination, and why. Rows that do not exist are left out; an id that is not
// unique may stand for several rows. Finding the row that another row waits for takes at most patience.
func (o *Outbox) RowsOf(ctx context.Context, ids []string, destination string, patience time.Duration) ([]Row, error) {
	owned, err := o.Ownership(ctx)
	if err != nil {
		return nil, err
	}
	var found []Row
	for i, n := range o.Views {
		if destination != "" && n.View().Name != destination {
			continue
		}
		states, err := o.states(ctx, i, ids)
		if err != nil {
			return nil, fmt.Errorf("look for rows: %w", err)
		}
		for _, row := range states {
			f := &row.Fates[0]
			for _, r := range owned.of(n) {
				if r.Owned.Has(row.Shard) && f.Owner == nil {
					f.Owner = new(r.Backend)
				}
			}
			if f.Why == "" {
				f.Why = o.waitsFor(ctx, i, row, patience)
			}
			row.Owner = f.Owner
			if at := slices.IndexFunc(found, func(other Row) bool { return other.ID == row.ID }); at >= 0 {
				found[at].Fates = append(found[at].Fates, *f)
			} else {
				found = append(found, row)
			}
		}
	}
	return found, nil
}

// states reads rows as a view has them, each with its fate there.
func (o *Outbox) states(ctx context.Context, view int, ids []string) (all []Row, err error) {
	n := o.Views[view]
	sets := o.sets()
	at := slices.IndexFunc(sets, func(s set) bool { return slices.Contains(s.views, view) })
	statement := n.Text("operate_row.sql", "taken", "coalesce("+takes(n)+", false)", "taker", o.taker(sets[at]),
		"message_topic", o.Topics[view], "scheduled", "true"+n.Scheduled())
	err = o.within(ctx, limits{statement: chooseTime}, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, statement, ids) // the rows have its error
		all, err = pgx.CollectRows(rows, func(found pgx.CollectableRow) (Row, error) {
			row := Row{Fates: []Fate{{Destination: n.View().Name}}}
			f := &row.Fates[0]
			var taken, scheduled bool
			var taker int
			err := found.Scan(&row.ID, &row.Topic, &f.Topic, &row.Shard, &row.At, &taken, &taker, &row.key, &scheduled,
				&f.Attempt, &f.LastError, &f.DueAt, &f.RelayedAt, &f.FailedAt)
			f.judge(taken, taker >= 0 && taker != view, scheduled)
			return row, err
		})
		return err
	})
	return all, err
}

// judge determines a row's state and, as far as the row itself shows, the reason. elsewhere says that another
// destination has taken the row into the same columns.
func (f *Fate) judge(taken, elsewhere, scheduled bool) {
	if elsewhere {
		f.Attempt, f.LastError, f.RelayedAt, f.FailedAt = nil, nil, nil, nil // those of the other destination
	}
	switch {
	case f.RelayedAt != nil && f.FailedAt != nil:
		f.State, f.Why = "discarded", "it failed, and was discarded and kept"
	case f.RelayedAt != nil && f.RelayedAt.Unix() == 0: // schema --destination has set it
		f.State, f.Why = "relayed", "it was in the table before the destination was added, so it counts as done, "+
			"and was not sent"
		f.RelayedAt = nil
	case f.RelayedAt != nil:
		f.State, f.Why = "relayed", "the broker has acknowledged it"
	case f.FailedAt != nil:
		f.State, f.Why = "failed", "it was given up; `outbox-relay failed retry` or `discard` decides what becomes "+
			"of it"
	case elsewhere || !taken:
		f.State, f.Why = "not taken", "the destination does not take its topic, or an earlier one does, or it "+
			"takes only rows that have failed or been relayed elsewhere"
	case scheduled:
		f.State, f.Why = "scheduled", "its available_at is to come"
	case f.LastError != nil:
		f.State = "retrying"
	default:
		f.State = "due"
	}
}

// waitsFor says what a due row waits for, as far as the table and the locks show it.
func (o *Outbox) waitsFor(ctx context.Context, view int, row Row, patience time.Duration) string {
	n := o.Views[view]
	if row.Fates[0].Owner == nil {
		return fmt.Sprintf("no replica owns its shard, which is number %d", row.Shard)
	}
	states := []string{n.Pending}
	if n.View().BlockFailed && n.Failed.Has() {
		states = []string{n.IsFailed, n.Pending}
	}
	for _, state := range states {
		var id string
		// The id is useful, but not essential: it may be that there is none, or that finding it takes too long.
		_ = o.within(ctx, limits{statement: patience, inOrder: true}, func(tx pgx.Tx) error {
			find := n.Text("operate_before.sql", "state", state+" and "+n.Taken,
				"anywhere", fmt.Sprint(state == n.IsFailed))
			return tx.QueryRow(ctx, find, row.key, row.ID).Scan(&id)
		})
		if id != "" {
			return "an older row of its key goes first, or one has failed and must be retried or discarded: " + id
		}
	}
	return "it waits for its turn, or for what the replica that owns its shard says that it is held for"
}
