package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// A Change is an operator's change to rows.
type Change struct {
	verb   string // the name of the change: "retry"
	done   string // the participle of the name: "retried"
	state  func(outbox.Names) string
	at     func(outbox.Names) outbox.Column // the column with the time when a row came into the state
	still  func(outbox.Names) string        // a row is unchanged since it was chosen, at $2
	apply  func(ctx context.Context, tx pgx.Tx, c *chunk) ([]Changed, error)
	refuse func(outbox.Names) error // why the table does not support the change; nil if it does
	// deletes says that rows are deleted that every other destination has done, and others are kept.
	deletes bool
	gently  bool // the order of a key among the rows is kept

	// empties reports whether the change of a row in one set takes the row out of the state in another set; nil if it
	// never does.
	empties func(changed, other outbox.Names) bool
	plan    string // what would become of each chosen row, unless action is set: "keep"
	// action is the expression of what would become of a chosen row of a set once earlier sets have been changed.
	action func(o *Outbox, s set, earlier []chosenRows) string
}

// Verb returns the name of the change, for display: "retry".
func (c Change) Verb() string { return c.verb }

// Deletes reports whether the change deletes rows that every other destination has done. It keeps all rows while the
// table has the state of others ([Outbox.Strangers]).
func (c Change) Deletes() bool { return c.deletes }

// Done returns the participle of the name, for display: "retried".
func (c Change) Done() string { return c.done }

// Changed is a row that was changed, and how.
type Changed struct{ ID, How string }

// chunk are the rows that one transaction changes.
type chunk struct {
	outbox     *Outbox
	set        set
	identities []string
	began      any // the database's time when the rows were chosen
}

// Retry returns the change that lets failed rows be tried again, with all their attempts. It also empties the columns
// of their dead letters: a relay that does not know these columns does not empty them when a row fails again.
func Retry() Change {
	return Change{
		verb: "retry", done: "retried", plan: "retry", state: failed, still: stillFailed, at: failedAt, refuse: keepsFailures,
		empties: func(changed, other outbox.Names) bool {
			return slices.ContainsFunc(changed.Unsent, func(a string) bool {
				return strings.HasPrefix(a, other.Failed.Name+" = ")
			})
		},
		apply: func(ctx context.Context, tx pgx.Tx, c *chunk) ([]Changed, error) {
			n := c.set.names
			assignments := []string{n.Failed.Name + " = null"}
			if n.LastError.Has() {
				assignments = append(assignments, n.LastError.Name+" = null")
			}
			assignments = append(assignments, n.Unsent...)
			return c.update(ctx, tx, "retried", append(assignments, fresh(n)...), stillFailed(n))
		},
	}
}

// Discard returns the change that gives up failed rows for good. A row that every other destination has done is
// deleted, unless keep is set: the row is then kept with failed_at and relayed_at set, and its last error ends with the
// reason. A table without relayed_at keeps no such rows. No row is deleted while the table has the state of
// destinations that are not configured.
func Discard(keep bool, reason string) Change {
	var action func(*Outbox, set, []chosenRows) string
	if !keep {
		action = func(o *Outbox, s set, earlier []chosenRows) string {
			return "case when " + o.doneElsewhere(s, earlier) + " then 'delete' else 'keep' end"
		}
	}
	return Change{
		verb: "discard", done: "discarded", plan: "keep", deletes: !keep, action: action,
		state: failed, still: stillFailed, at: failedAt, refuse: func(n outbox.Names) error {
			if keep && n.Failed.Has() && !n.Relayed.Has() {
				return fmt.Errorf("table %s has no column relayed_at, so it cannot show that a row was discarded; leave out "+
					"--keep to delete the row", n.Table)
			}
			return keepsFailures(n)
		},
		apply: func(ctx context.Context, tx pgx.Tx, c *chunk) (changed []Changed, err error) {
			n := c.set.names
			if !keep {
				if changed, err = c.delete(ctx, tx); err != nil || len(changed) == len(c.identities) || !n.Relayed.Has() {
					return changed, err
				}
			}
			assignments := []string{n.Relayed.Name + " = " + n.Relayed.Now()}
			var values []any
			if n.LastError.Has() {
				assignments = append(assignments, n.LastError.Name+" = "+withReason(n.LastError))
				values = append(values, outbox.Storable(note(reason), n.Encoding, 0))
			}
			kept, err := c.update(ctx, tx, "kept", assignments, stillFailed(n), values...)
			return append(changed, kept...), err
		},
	}
}

// Replay returns the change that publishes relayed rows again.
func Replay() Change {
	return Change{
		verb: "replay", done: "replayed", plan: "replay", gently: true, state: func(n outbox.Names) string {
			state := n.Relayed.Name + " is not null"
			if n.Failed.Has() { // otherwise the row was discarded
				state += " and " + n.Failed.Name + " is null"
			}
			if n.Came != "" { // otherwise no relay would publish it
				state += " and " + n.Came
			}
			return state
		},
		still: stillRelayed,
		at:    func(n outbox.Names) outbox.Column { return n.Relayed },
		refuse: func(n outbox.Names) error {
			if !n.Relayed.Has() {
				return fmt.Errorf("table %s keeps no rows that were relayed", n.Table)
			}
			return nil
		},
		apply: func(ctx context.Context, tx pgx.Tx, c *chunk) ([]Changed, error) {
			n := c.set.names
			assignments := append([]string{n.Relayed.Name + " = null"}, fresh(n)...)
			if n.LastError.Has() {
				assignments = append(assignments, n.LastError.Name+" = null")
			}
			return c.update(ctx, tx, "replayed", assignments, stillRelayed(n))
		},
	}
}

func failed(n outbox.Names) string          { return n.IsFailed }
func failedAt(n outbox.Names) outbox.Column { return n.Failed }

func stillRelayed(n outbox.Names) string {
	still := n.Relayed.Name + " <= " + n.Relayed.At("$2::timestamptz + interval '1 second'")
	if n.Failed.Has() {
		still += " and " + n.Failed.Name + " is null"
	}
	return still
}

func stillFailed(n outbox.Names) string {
	return n.IsFailed + " and " + n.Failed.Name + " <= " + n.Failed.At("$2::timestamptz + interval '1 second'")
}

func keepsFailures(n outbox.Names) error {
	if !n.Failed.Has() {
		return fmt.Errorf("table %s has no column failed_at, so no row of it fails", n.Table)
	}
	return nil
}

// fresh returns the assignments that give a row all its attempts again. To the relays the row looks as if it had been
// inserted now: a tail scan in progress leaves it, and the other rows of its key, to the next tail scan.
func fresh(n outbox.Names) (assignments []string) {
	if n.Attempt.Has() {
		assignments = append(assignments, n.Attempt.Name+" = default")
	}
	if n.Txid.Writable {
		assignments = append(assignments, n.Txid.Name+" = pg_current_xact_id()")
	}
	return assignments
}

// note returns the text that is added to the last error of a discarded row.
func note(reason string) string {
	if reason == "" {
		return "[discarded]"
	}
	return "[discarded: " + strings.ReplaceAll(reason, "\x00", "") + "]"
}

// withReason is the last error followed by $3. If the column is too narrow for both, the error is cut.
func withReason(c outbox.Column) string {
	if c.Width == 0 {
		return fmt.Sprintf("concat_ws(' ', %s, $3::text)", c.Name)
	}
	return fmt.Sprintf("left(concat_ws(' ', nullif(left(%s, greatest(%d - length($3::text), 0)), ''), $3::text), %d)",
		c.Name, c.Width-1, c.Width)
}

// update changes the rows of a chunk.
func (c *chunk) update(ctx context.Context, tx pgx.Tx, how string, assignments []string, still string, values ...any,
) ([]Changed, error) {
	return c.change(ctx, tx, how, c.set.names.Text("operate_update.sql", "still", still,
		"assignments", strings.Join(assignments, ", ")), values...)
}

// delete deletes the rows of a chunk that every other destination has done.
func (c *chunk) delete(ctx context.Context, tx pgx.Tx) ([]Changed, error) {
	return c.change(ctx, tx, "deleted", c.set.names.Text("operate_delete.sql", "still", stillFailed(c.set.names),
		"done", c.outbox.doneElsewhere(c.set, nil)))
}

func (c *chunk) change(ctx context.Context, tx pgx.Tx, how, statement string, values ...any) ([]Changed, error) {
	rows, err := tx.Query(ctx, statement, append([]any{c.identities, c.began}, values...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Changed, error) {
		changed := Changed{How: how}
		err := row.Scan(&changed.ID)
		return changed, err
	})
}

// doneElsewhere is the condition that every destination with other columns than those of a set is done with a row, or
// will be once the given rows of others have been discarded. Of destinations that are not configured here that is not
// known.
func (o *Outbox) doneElsewhere(but set, discarded []chosenRows) string {
	done := "true"
	if o.Strangers() != nil {
		done = "false" // the other conditions stay, since they use the statement's parameters
	}
	for _, s := range o.sets() {
		if s.names.Relayed.Name == but.names.Relayed.Name {
			continue
		}
		here := o.done(s)
		for _, d := range discarded {
			if d.set.names.Relayed.Name == s.names.Relayed.Name {
				here = "(" + here + " or " + d.condition + ")"
			}
		}
		done += " and " + here
	}
	return done
}

// done is the condition that the destinations of a set are done with a row: it was relayed or discarded there, or none
// of them takes it.
func (o *Outbox) done(s set) string {
	if o.takesAll(s) {
		return s.names.Relayed.Name + " is not null"
	}
	var takers []string
	for _, i := range s.views {
		takers = append(takers, o.takes(i))
	}
	return fmt.Sprintf("(%s is not null or not coalesce(%s, false))", s.names.Relayed.Name, strings.Join(takers, " or "))
}

// takes is the condition that a view takes a row, and that the row has reached the state in which the view takes it.
func (o *Outbox) takes(view int) string {
	n := o.Views[view].Table.Names()
	if n.Came != "" {
		return "(" + n.Came + " and (" + n.Taken + "))"
	}
	return "(" + n.Taken + ")"
}

// takesAll reports whether each row belongs to one of the destinations of a set.
func (o *Outbox) takesAll(s set) bool {
	return slices.ContainsFunc(s.views, func(i int) bool {
		n := o.Views[i].Table.Names()
		return n.Came == "" && n.Taken == pattern.Always
	})
}

// optional reports whether all destinations of a set are best effort.
func (o *Outbox) optional(s set) bool {
	return !slices.ContainsFunc(s.views, func(i int) bool { return !o.Views[i].Optional })
}

// allOptional reports whether all destinations are best effort.
func (o *Outbox) allOptional() bool {
	return !slices.ContainsFunc(o.Views, func(v View) bool { return !v.Optional })
}
