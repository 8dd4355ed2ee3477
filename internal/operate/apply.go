package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/sql"
)

const (
	// changeTime bounds each transaction that changes rows.
	changeTime = 10 * time.Second
	// chunkRows is how many rows a transaction changes, fewer where that took too long.
	chunkRows = 500
)

// A Progress receives reports about each transaction. Row and Done may be nil.
type Progress struct {
	// Row is called for each row that was changed, after its transaction has been committed. The row's Action is what
	// has become of it: "deleted", "kept".
	Row func(Chosen) error
	// Done is called with the number of rows that have been processed.
	Done func(rows int64)
	// Waits is called with the reason for a wait, which only a replay has.
	Waits func(what string)
}

// A Result says what became of the rows of a choice.
type Result struct {
	Changed int64
	Locked  int64 // rows that another session keeps locked
	Left    int64 // rows that were left when the change was stopped
}

// Apply makes the change in small transactions. Each transaction wakes the relays that listen on a channel, unless the
// channel is empty. When ctx ends, Apply stops after the current transaction. Rows that have changed since they were
// chosen are left alone.
func (c *Choice) Apply(ctx context.Context, channel string, progress Progress) (result Result, err error) {
	seen, size := int64(0), chunkRows
	// Chunks are read and changed over different connections: the cursors outlive each transaction that changes rows,
	// and a stop between two transactions leaves every row either changed or as it was.
	apply := func(s set, rows []Chosen) error {
		for len(rows) > 0 && ctx.Err() == nil {
			chunk, began := rows[:min(size, len(rows))], time.Now()
			err := c.applyTo(ctx, s, chunk, channel, progress, &result)
			if size > 1 && outbox.Cancelled(err) {
				size = max(1, size/4) // a foreign key without an index, or a trigger, makes each row slow
				continue
			}
			rows, seen = rows[len(chunk):], seen+int64(len(chunk))
			if progress.Done != nil {
				progress.Done(seen)
			}
			if err != nil {
				return err
			}
			pause(ctx, time.Duration(c.change.Rest)*time.Since(began))
		}
		return ctx.Err()
	}
	for _, p := range c.picks {
		end, err := c.end(ctx, p, progress)
		var last []Chosen // the rows with the last order value, which are changed when those before them are relayed
		if err == nil {
			err = c.chunks(ctx, p, func(rows []Chosen) error {
				at := slices.IndexFunc(rows, func(row Chosen) bool { return row.order == end })
				if end != "" && at >= 0 {
					rows, last = rows[:at], append(last, rows[at:]...)
				}
				return apply(p.set, rows)
			})
		}
		if err == nil && len(last) > 0 {
			err = c.settle(ctx, p.set, last, progress)
		}
		if err == nil {
			err = apply(p.set, last)
		}
		if err != nil && ctx.Err() == nil {
			return result, err
		}
	}
	result.Left = c.Rows - seen
	return result, nil
}

// applyTo changes rows in one transaction: those that are unchanged since they were chosen and that no other session
// keeps locked. Only rows that were to be deleted when they were chosen are deleted, so that a dry run has named each
// of them.
func (c *Choice) applyTo(ctx context.Context, s set, rows []Chosen, channel string, progress Progress, result *Result,
) error {
	n, change, o := s.table, c.change, c.outbox
	byID := make(map[string]Chosen, len(rows))
	var all, deletable []string // identities
	for _, row := range rows {
		byID[row.ID] = row
		all = append(all, row.identity)
		if row.Action == actionDelete {
			deletable = append(deletable, row.identity)
		}
	}
	var changed []Chosen
	var locked int64
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*changeTime)
	defer cancel()
	err := c.outbox.within(ctx, limits{statement: changeTime}, func(tx pgx.Tx) error {
		do := func(how, file, name, text string, parameters ...any) error {
			found, err := tx.Query(ctx, n.Text(file, "still", change.still(o, n), name, text), parameters...)
			if err != nil {
				return err
			}
			var id string
			_, err = pgx.ForEachRow(found, []any{&id}, func() error {
				row := byID[id]
				row.Action = how
				changed = append(changed, row)
				return nil
			})
			return err
		}
		if len(deletable) > 0 {
			done := "true"
			if change.Deletes {
				done = o.doneElsewhere(s)
			}
			if err := do("deleted", "operate_delete.sql", "done", done, deletable, c.began); err != nil {
				return err
			}
		}
		if len(changed) < len(rows) && change.assign != nil && (!change.Deletes || n.Relayed.Has()) {
			assignments, values := change.assign(n)
			if err := do(change.kept, "operate_update.sql", "assignments", strings.Join(assignments, ", "),
				append([]any{all, c.began}, values...)...); err != nil {
				return err
			}
		}
		if len(changed) < len(rows) {
			left := n.Text("operate_unchanged.sql", "still", change.still(o, n))
			if err := tx.QueryRow(ctx, left, all, c.began).Scan(&locked); err != nil {
				return err
			}
		}
		if channel == "" || len(changed) == 0 || change.prune != nil {
			return nil
		}
		_, err := tx.Exec(ctx, sql.Text("notify.sql", nil), channel, outbox.Operated)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s rows: %w", change.Verb, err)
	}
	result.Changed, result.Locked = result.Changed+int64(len(changed)), result.Locked+locked
	if progress.Row == nil {
		return nil
	}
	for _, row := range changed {
		if err := progress.Row(row); err != nil {
			return err
		}
	}
	return nil
}
