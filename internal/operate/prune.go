package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/sql"
)

// pruning says which rows are deleted because they are old.
type pruning struct {
	olderThan time.Duration
	failed    bool // failed rows count as done
	again     bool // it is done again and again, and not with failed
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

// smallTable is the largest size at which a table may be read as a whole.
const smallTable = 16 << 20

// rows returns the rows that are deleted, for all destinations at once. Whatever deletes rows again and again must not
// read a large table for it: without an index that leads to the rows, the error names the one that is missing.
func (p *pruning) rows(ctx context.Context, o *Outbox, selection Selection) ([]pick, error) {
	if err := o.Strangers(); err != nil {
		return nil, err
	}
	n := o.Views[0]
	all := pick{set: set{table: n, views: []int{untaken}}, state: p.done(o, p.cutoff("now()")), values: new(parameters)}
	// The last error is that of the chosen destination, or of any.
	picks, err := o.pick(selection, func(seen *outbox.Table) (string, outbox.Column, error) {
		if selection.Destination == "" {
			return "true", n.Inserted, nil
		}
		return cmp.Or(seen.Came, "true"), n.Inserted, nil
	}, all.values)
	if err != nil {
		return nil, err
	}
	var anywhere []string
	for _, p := range picks {
		anywhere = append(anywhere, p.where())
	}
	all.chosen = " and (" + strings.Join(anywhere, " or ") + ")"
	if n.Inserted.Has() && n.Indexed(n.Inserted, true) {
		all.state += " and " + n.Inserted.Name + " < " + n.Inserted.At(p.cutoff("now()"))
		return []pick{all}, nil
	}
	if !p.again { // an operator may have the whole table read
		return []pick{all}, nil
	}
	return []pick{all}, p.indexed(ctx, o)
}

// indexed returns an error that names the missing index if none leads to the rows that are done, and the table is
// large.
func (p *pruning) indexed(ctx context.Context, o *Outbox) error {
	n := o.Views[0]
	create := n.CreateIndex(n.Inserted.Name, pattern.Always)
	for _, v := range o.Views {
		if r := v.Relayed; r.Has() && takesAll(v) && !v.View().Optional { // each row that is done has a time there
			if v.Indexed(r, false) {
				return nil
			}
			create = n.CreateIndex(r.Name, r.Name+" is not null")
		}
	}
	size, err := n.Size(ctx)
	if err != nil || size.Bytes <= smallTable {
		return err
	}
	return fmt.Errorf("no index of table %s leads to the rows that are done, and to go through the whole table for "+
		"them again and again is too much for a database: run %s", n.Quoted(), create)
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
			end := n.Failed.Name + " < " + n.Failed.At(cutoff)
			if n.Relayed.Has() {
				end += " and " + n.Relayed.Name + " is null"
			}
			ends = append(ends, end)
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
	cleanRest    = 4       // length of the pause after a transaction, as a multiple of the transaction's duration
	cleanRows    = 100_000 // number of rows that are looked for at once, which bounds the time of a snapshot
	cleanEvery   = 10 * time.Minute
	cleanSoonest = time.Second
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

// errNotAlone reports that another session deletes old rows.
var errNotAlone = errors.New("another replica deletes old rows")

// lock keeps other replicas from deleting old rows until the list is closed. If the session that holds the lock ends
// before, another replica may begin as well: both skip the rows that the other one has locked.
func (c Change) lock(ctx context.Context, o *Outbox, tx pgx.Tx) error {
	if c.prune == nil || !c.prune.again {
		return nil
	}
	class, object := owner.CleaningLock(o.Views[0].Name())
	var alone bool
	own := pgsession.IsOwn(tx.Conn())
	if err := tx.QueryRow(ctx, sql.Text("prune_lock.sql", nil), class, object, own).Scan(&alone); err != nil {
		return fmt.Errorf("look for others that delete old rows: %w", err)
	}
	if !alone {
		return errNotAlone
	}
	return nil
}

// clean deletes the rows that are old now, unless another replica is doing so.
func (c *Cleaner) clean(ctx context.Context) error {
	o, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer o.Close()
	begun := time.Now()
	change := Prune(c.After, false)
	change.Rest, change.most, change.prune.again = cleanRest, cleanRows, true
	deleted, more := int64(0), true
	for more && err == nil && ctx.Err() == nil {
		var choice *Choice
		if choice, err = o.Choose(ctx, change, Selection{}); err == nil {
			var result Result
			result, err = choice.Apply(ctx, "", Progress{})
			choice.Close(ctx)
			deleted, more = deleted+result.Changed, result.Changed > 0 && choice.More()
		}
	}
	if errors.Is(err, errNotAlone) {
		err = nil
	}
	if deleted > 0 {
		c.Logger.Info("deleted old rows", "rows", deleted, "seconds", int(time.Since(begun).Seconds()))
	}
	return err
}
