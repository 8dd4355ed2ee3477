package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A Choice is the set of rows that were chosen for a [Change]. The server holds the list, in the session of a
// connection of its own.
type Choice struct {
	*list
	outbox *Outbox
	change Change
	picks  []pick
	began  time.Time // the database's time
	chosen time.Time // the same by the clock of this host
	rows   int64
}

// A Chosen row is one of a [Choice]. The names of its JSON fields are stable.
type Chosen struct {
	ID          string `json:"id"`
	Topic       string `json:"topic"`
	Destination string `json:"destination"` // empty if no destination takes the row, or if it is pruned
	Action      string `json:"action"`      // what the change would do to the row: "delete"
	identity    string
	order, key  *string
}

const (
	// changeTime bounds each transaction that changes rows.
	changeTime = 10 * time.Second
	// chunkRows is how many rows a transaction changes, fewer where that took too long.
	chunkRows = 500
)

// Choose finds the rows for a change without changing any. The caller must close the choice.
func (o *Outbox) Choose(ctx context.Context, change Change, selection Selection) (*Choice, error) {
	picks, err := change.rows(ctx, o, selection)
	if err != nil {
		return nil, err
	}
	keepsNone := func(p pick) bool { return !p.set.table.Relayed.Has() }
	if err := o.Strangers(); err != nil && change.Deletes && slices.ContainsFunc(picks, keepsNone) {
		return nil, err // rows can be neither deleted nor kept
	}
	c := &Choice{outbox: o, change: change, picks: picks}
	c.list, err = o.newList(ctx, func(l *list, tx pgx.Tx) error {
		if err := change.lock(ctx, o, l, tx); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "select now()").Scan(&c.began); err != nil {
			return err
		}
		c.chosen = time.Now()
		for i := range picks {
			p := &picks[i]
			p.cursor = fmt.Sprintf("outbox_relay_rows_%d", i)
			if _, err := tx.Exec(ctx, c.declaration(*p), p.values...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("choose rows: %w", err)
	}
	for i := range picks {
		p := &picks[i]
		moved, err := c.conn.Exec(ctx, "move forward all in "+p.cursor)
		if err != nil {
			c.Close(ctx)
			return nil, fmt.Errorf("count rows: %w", err)
		}
		p.rows = moved.RowsAffected()
		c.rows += p.rows
	}
	return c, nil
}

// actionDelete is the [Chosen.Action] of a row that is to be deleted.
const actionDelete = "delete"

// declaration is the statement that makes the server keep a list of a pick's rows.
func (c *Choice) declaration(p pick) string {
	action, taker, most, n := "'"+c.change.plan+"'", fmt.Sprint(untaken), "all", p.set.table
	sorting := "order by " + n.Order.Name + ", " + n.ID.Name
	if c.change.prune != nil {
		sorting = "" // it may be millions
	} else {
		taker = c.outbox.taker(p.set)
	}
	if c.change.Deletes {
		action = "case when " + c.outbox.doneElsewhere(p.set) + " then '" + actionDelete + "' else " + action + " end"
	}
	if c.change.most > 0 {
		most = strconv.Itoa(c.change.most)
	}
	return n.Text("operate_choose.sql", "cursor", p.cursor, "taker", taker, "action", action, "state", p.where(),
		"sorting", sorting, "most", most)
}

// rows returns the rows of a selection to which the change applies.
func (c Change) rows(ctx context.Context, o *Outbox, selection Selection) ([]pick, error) {
	if c.prune != nil {
		return c.prune.rows(ctx, o, selection)
	}
	picks, err := o.pick(selection, c.in)
	for i := range picks {
		if n := picks[i].set.table; c.gently && n.Came != "" {
			picks[i].state += " and " + n.Came // not part of what must be unchanged: the origin is replayed as well
		}
	}
	return picks, err
}

// Close gives up the list.
func (c *Choice) Close(ctx context.Context) { c.close(ctx) }

// Rows returns the number of chosen rows.
func (c *Choice) Rows() int64 { return c.rows }

// More reports whether there may be more rows than were chosen. They are chosen when these have been changed.
func (c *Choice) More() bool { return c.change.most > 0 && c.rows == int64(c.change.most) }

// Each calls a function for each row, in table order for each set of destinations.
func (c *Choice) Each(ctx context.Context, do func(Chosen) error) error {
	for _, p := range c.picks {
		err := c.chunks(ctx, p, func(rows []Chosen) error {
			for _, row := range rows {
				if err := do(row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// chunks calls a function with the rows of a pick, one chunk at a time.
func (c *Choice) chunks(ctx context.Context, p pick, do func([]Chosen) error) error {
	if _, err := c.conn.Exec(ctx, "move absolute 0 in "+p.cursor); err != nil {
		return fmt.Errorf("list rows: %w", err)
	}
	return fetch(ctx, c.conn, p.cursor, chunkRows, c.read, do)
}

// read reads a row of operate_choose.sql.
func (c *Choice) read(row pgx.CollectableRow) (chosen Chosen, err error) {
	var taker int
	err = row.Scan(&chosen.identity, &chosen.ID, &chosen.Topic, &taker, &chosen.order, &chosen.key, &chosen.Action, nil)
	chosen.Destination = c.outbox.nameOf(taker)
	return chosen, err
}

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
				at := slices.IndexFunc(rows, func(row Chosen) bool {
					return end != nil && row.order != nil && *row.order == *end
				})
				if at >= 0 {
					rows, last = rows[:at], append(last, rows[at:]...)
				}
				return apply(p.set, rows)
			})
		}
		if err == nil && len(last) > 0 {
			err = c.settle(ctx, p.set, last, progress)
		}
		for rows := range slices.Chunk(last, chunkRows) {
			if err == nil {
				err = apply(p.set, rows)
			}
		}
		if err != nil && ctx.Err() == nil {
			if !c.own && errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("%w; the list of rows keeps a session of the pooler: let the pooler have two for this "+
					"database and role (default_pool_size), or set OUTBOX_DATABASE_DIRECT_URL", err)
			}
			return result, err
		}
	}
	result.Left = c.rows - seen
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
	err := c.outbox.within(ctx, limits{statement: changeTime, lock: changeTime / 2}, func(tx pgx.Tx) error {
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
	for _, row := range changed {
		if progress.Row == nil {
			break
		}
		if err := progress.Row(row); err != nil {
			return err
		}
	}
	return nil
}
