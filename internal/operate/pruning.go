package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// pruning is the progress of a prune.
type pruning struct {
	*Prune
	rows    int // number of rows that one transaction deletes
	deleted int64
	locked  int64 // rows that another session kept locked

	// Of the index that is followed:
	names         []string   // names in the statements and their values
	beyond, whole string     // conditions for rows after the position, and for those in the window
	values        parameters // limit, cutoff, position and end of the window, and those of the selection
}

// follow goes along an index, one window after another. The values in a window may all be equal: one UPDATE may have
// marked millions of rows.
func (s *pruning) follow(ctx context.Context, w way, cutoff time.Time) error {
	n := s.Outbox.base()
	s.values = parameters{nil, cutoff, nil, nil}
	selected, err := s.selected(n, &s.values)
	if err != nil {
		return err
	}
	column, within := w.column.Name, w.column.Name+" is not null"
	if w.bounded {
		within = column + " < " + w.column.At("$2")
	}
	s.names = []string{"here", n.HereOf("select identity from chosen"), "column", column, "ready", s.done() + selected}
	s.beyond = fmt.Sprintf("$2::timestamptz is not null and %s and ($3::text is null or %s > $3::text::%s)", within,
		column, w.column.Type)
	s.whole = s.beyond + fmt.Sprintf(" and ($4::text is null or %s <= $4::text::%s)", column, w.column.Type)
	for more := true; more && ctx.Err() == nil; s.values[2] = s.values[3] {
		// The window ends where twice as many rows have been passed as one transaction deletes.
		end, err := s.ask(ctx, pruneTime, "prune_window.sql", s.beyond, parameters{2 * s.rows, cutoff, s.values[2]})
		if err != nil {
			return err
		}
		if more = len(end) > 0; more {
			s.values[3] = end[0]
		} else {
			s.values[3] = nil
		}
		left, err := s.clear(ctx)
		if s.locked += left; err != nil {
			return err
		}
	}
	return nil
}

// clear deletes the rows of a window, or reports them all in a dry run. It returns how many of them another session
// keeps locked, if somebody wants to know.
func (s *pruning) clear(ctx context.Context) (locked int64, err error) {
	for full := !s.DryRun; full && ctx.Err() == nil; {
		started, limit := time.Now(), pruneTime
		if s.rows > leastPrune {
			limit = pruneBrief
		}
		s.values[0] = s.rows
		ids, err := s.ask(ctx, limit, "prune_delete.sql", s.whole, s.values)
		took := time.Since(started)
		if outbox.Cancelled(err) && s.rows > leastPrune {
			s.rows = leastPrune
			continue
		}
		if err == nil {
			err = s.report(ids)
		}
		if err != nil {
			return 0, err
		}
		full = len(ids) == s.rows
		switch { // transactions stay short
		case took > pruneSlow:
			s.rows = max(s.rows/2, leastPrune)
		case took < pruneQuick:
			s.rows = min(2*s.rows, mostPrune)
		}
		if len(ids) > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(s.Rest) * took):
			}
		}
	}
	if s.DryRun || s.Locked != nil && ctx.Err() == nil {
		s.values[0] = nil
		left, err := s.ask(ctx, pruneTime, "prune_list.sql", s.whole, s.values)
		if err != nil || !s.DryRun {
			return int64(len(left)), err
		}
		return 0, s.report(left)
	}
	return 0, nil
}

// report counts and reports deleted rows.
func (s *pruning) report(ids []string) error {
	s.deleted += int64(len(ids))
	for _, id := range ids {
		if s.Row != nil {
			if err := s.Row(id); err != nil {
				return err
			}
		}
	}
	if s.Done != nil {
		s.Done(s.deleted)
	}
	return nil
}

// ask runs a statement in a transaction of its own, also after ctx has ended. The server ends a statement that takes
// longer than the limit.
func (s *pruning) ask(ctx context.Context, limit time.Duration, file, condition string,
	values parameters,
) (texts []string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*pruneTime)
	defer cancel()
	n := s.Outbox.base()
	err = within(ctx, s.Outbox.Pool, limits{statement: limit, lock: pruneTime, inOrder: true}, func(tx pgx.Tx) error {
		// Otherwise its select would lock the table first, and a migration could be a deadlock's victim.
		if file == "prune_delete.sql" {
			if _, err := tx.Exec(ctx, n.Text("lock_table.sql", "write", "delete from "+n.Table)); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, n.Text(file, append(s.names, "within", condition)...), values...)
		if err != nil {
			return err
		}
		texts, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return texts, err
}
