package operate

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/sql"
)

// pruning says which rows are deleted because they are old.
type pruning struct {
	olderThan time.Duration
	failed    bool // failed rows count as done
}

// pruneRows is how many rows are chosen at once to be deleted: the list of a million takes the server 100 MB of disk,
// and a table may hold hundreds of millions when it is pruned because the disk is full.
const pruneRows = 1_000_000

// Prune returns the change that deletes rows that every destination has done for some time; if failed is set, also
// those that failed so long ago. The times of a selection refer to the time of insert.
func Prune(olderThan time.Duration, failed bool) Change {
	return Change{
		Verb: "delete", Done: "deleted", Rest: 1, plan: actionDelete, most: pruneRows,
		prune: &pruning{olderThan: olderThan, failed: failed},
	}
}

// rows returns the rows that are deleted, for all destinations at once.
func (p *pruning) rows(o *Outbox, selection Selection) ([]pick, error) {
	if err := o.Strangers(); err != nil {
		return nil, err
	}
	n := o.Views[0]
	all := pick{set: set{table: n, views: []int{untaken}}, state: p.done(o, p.cutoff("now()")), values: new(parameters)}
	// The last error is that of the chosen destination, or of any.
	var anywhere []string
	for _, set := range o.chosen(selection) {
		chosen, err := selection.condition(set.table, n.Inserted, all.values)
		if err != nil {
			return nil, err
		}
		if selection.Destination != "" {
			chosen += " and " + takes(set.table)
		}
		anywhere = append(anywhere, "true"+chosen)
	}
	all.chosen = " and (" + strings.Join(anywhere, " or ") + ")"
	if n.Indexed(n.Inserted) {
		all.state += " and " + n.Inserted.Name + " < " + n.Inserted.At(p.cutoff("now()"))
	}
	return []pick{all}, nil
}

// cutoff is the time before which a row must have been done. The text of an interval in microseconds would hold 36
// minutes at most in PostgreSQL 14.
func (p *pruning) cutoff(now string) string {
	return fmt.Sprintf("%s - make_interval(secs => %f)", now, p.olderThan.Seconds())
}

// Undone is the condition for rows that keep a partition: $1 is the time before which its rows must have been done, and
// $2 says whether failed rows count as done.
func (o *Outbox) Undone() string {
	return fmt.Sprintf("case when $2 then %s else %s end is not true",
		(&pruning{failed: true}).done(o, "$1"), (&pruning{}).done(o, "$1"))
}

// done is the condition that every required destination has been done with a row for long enough, and that one of them
// takes it as it is inserted. A row that only best-effort destinations take waits for all of these. One that no
// destination takes is kept.
func (p *pruning) done(o *Outbox, cutoff string) string {
	var takers, others []string
	required, optional := "true", "true"
	for _, n := range o.Views {
		var ends []string
		if n.Relayed.Has() {
			ends = append(ends, n.Relayed.Name+" < "+n.Relayed.At(cutoff))
		}
		if p.failed && n.Failed.Has() {
			ends = append(ends, n.Failed.Name+" < "+n.Failed.At(cutoff))
		}
		all, some := &required, &takers
		if n.View().Optional {
			all, some = &optional, &others
		}
		*all += " and " + done(n, cmp.Or(strings.Join(ends, " or "), pattern.Never))
		if n.Came == "" {
			*some = append(*some, takes(n))
		}
	}
	if others != nil {
		takers = append(takers, optional+" and ("+strings.Join(others, " or ")+")")
	}
	return required + " and (" + strings.Join(takers, " or ") + ")"
}

// A Cleaner deletes old rows while replicas relay, in one replica at a time. Its fields are its configuration.
//
// It is gentle: it deletes at most a fifth of the time. It continues during outages, however long, since a table that
// grows without bound would cause the next one.
type Cleaner struct {
	Open   func(context.Context) (*Outbox, error) // opens the table in its present form
	After  time.Duration
	Logger *slog.Logger
}

const (
	cleanRest = 4       // length of the pause after a transaction, as a multiple of the transaction's duration
	cleanRows = 100_000 // number of rows that are looked for at once, which bounds the time of a snapshot
	// cleanPatience bounds the search for them without an index: it reads the whole table, again and again.
	cleanPatience = 5 * time.Second
	cleanEvery    = 10 * time.Minute
	cleanSoonest  = time.Second
)

// Run deletes old rows again and again until ctx ends.
func (c *Cleaner) Run(ctx context.Context) {
	for reported := ""; ctx.Err() == nil; {
		text := ""
		if err := c.clean(ctx); err != nil && ctx.Err() == nil {
			if text = errtext.Line(err); text != reported {
				c.Logger.Warn("old rows cannot be deleted", "error", err)
			}
		}
		reported = text
		pause(ctx, max(min(c.After/10, cleanEvery), cleanSoonest))
	}
}

// clean deletes the rows that are old now, unless another replica is doing so. If the session that holds the lock ends
// before, another replica may begin as well: both skip the rows that the other one has locked.
func (c *Cleaner) clean(ctx context.Context) error {
	o, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer o.Close()
	n := o.Views[0]
	conn, err := o.Connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer closeList(ctx, conn)
	class, object := owner.CleaningLock(n.Name())
	var alone bool
	err = conn.QueryRow(ctx, sql.Text("prune_lock.sql", nil), class, object).Scan(&alone)
	if err != nil || !alone {
		return err
	}
	begun, deleted := time.Now(), int64(0)
	defer func() {
		if deleted > 0 {
			c.Logger.Info("deleted old rows", "rows", deleted, "seconds", int(time.Since(begun).Seconds()))
		}
	}()
	change := Prune(c.After, false)
	change.Rest, change.most = cleanRest, cleanRows
	column, indexed := n.Inserted.Or(n.Relayed.Name), n.Indexed(n.Inserted)
	for _, v := range o.Views {
		if takesAll(v) && !v.View().Optional && v.Relayed.Has() { // each row that is done has a time there
			column, indexed = v.Relayed.Name, indexed || v.Indexed(v.Relayed)
		}
	}
	if !indexed {
		change.patience = cleanPatience
	}
	for more := true; more && ctx.Err() == nil; {
		choice, err := o.Choose(ctx, change, Selection{})
		if outbox.Cancelled(err) {
			return fmt.Errorf("%w: an index leads to the rows that are done, such as %s", err,
				n.CreateIndex(column, pattern.Always))
		}
		if err != nil {
			return err
		}
		result, err := choice.Apply(ctx, "", Progress{})
		choice.Close(ctx)
		if deleted += result.Changed; err != nil {
			return err
		}
		more = result.Changed > 0 && choice.More()
	}
	return nil
}
