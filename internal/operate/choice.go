package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Choice is the set of rows that were chosen for a [Change]. The server holds the list, in the session of a
// connection of its own.
type Choice struct {
	conn   *pgx.Conn // has the list
	outbox *Outbox
	change Change
	picks  []pick
	began  time.Time // the database's time
	Rows   int64     // the number of chosen rows
}

// A Chosen row is one of a [Choice]. The names of its JSON fields are stable.
type Chosen struct {
	ID          string `json:"id"`
	Topic       string `json:"topic"`
	Destination string `json:"destination"` // empty if no destination takes the row, or if it is pruned
	Action      string `json:"action"`      // what the change would do to the row: "delete"
	DryRun      bool   `json:"dry_run,omitempty"`
	identity    string
	order       string // empty for NULL
	key         *string
}

// Choose finds the rows for a change without changing any. The caller must close the choice.
func (o *Outbox) Choose(ctx context.Context, change Change, selection Selection) (*Choice, error) {
	picks, err := change.rows(o, selection)
	if err != nil {
		return nil, err
	}
	keepsNone := func(p pick) bool { return !p.set.table.Relayed.Has() }
	if err := o.Strangers(); err != nil && change.Deletes && slices.ContainsFunc(picks, keepsNone) {
		return nil, err // rows can be neither deleted nor kept
	}
	c := &Choice{outbox: o, change: change, picks: picks}
	c.conn, err = o.list(ctx, cmp.Or(change.patience, chooseTime), func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, "select now()").Scan(&c.began); err != nil {
			return err
		}
		for i := range picks {
			p := &picks[i]
			p.cursor = fmt.Sprintf("outbox_relay_rows_%d", i)
			if _, err := tx.Exec(ctx, c.declaration(*p), *p.values...); err != nil {
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
		c.Rows += p.rows
	}
	return c, nil
}

// actionDelete is the [Chosen.Action] of a row that is to be deleted.
const actionDelete = "delete"

// declaration is the statement that makes the server keep a list of a pick's rows.
func (c *Choice) declaration(p pick) string {
	n, action, most := p.set.table, "'"+c.change.plan+"'", "all"
	sorting := "order by " + n.Order.Name + ", " + n.ID.Name
	if c.change.Deletes {
		action = "case when " + c.outbox.doneElsewhere(p.set) + " then '" + actionDelete + "' else " + action + " end"
	}
	if c.change.most > 0 {
		sorting, most = "", strconv.Itoa(c.change.most) // it may be millions
	}
	return n.Text("operate_choose.sql", "cursor", p.cursor, "taker", c.outbox.taker(p.set), "action", action, "state",
		p.where(), "sorting", sorting, "most", most)
}

// rows returns the rows of a selection to which the change applies.
func (c Change) rows(o *Outbox, selection Selection) ([]pick, error) {
	if c.prune != nil {
		return c.prune.rows(o, selection)
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
func (c *Choice) Close(ctx context.Context) { closeList(ctx, c.conn) }

// More reports whether there may be more rows than were chosen. They are chosen when these have been changed.
func (c *Choice) More() bool { return c.change.most > 0 && c.Rows == int64(c.change.most) }

// Each calls a function for each row, in table order for each set of destinations.
func (c *Choice) Each(ctx context.Context, do func(Chosen) error) error {
	for _, p := range c.picks {
		err := c.chunks(ctx, p, func(rows []Chosen) error {
			for _, row := range rows {
				row.DryRun = true
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
