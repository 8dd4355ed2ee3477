package operate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A Prune deletes rows that every destination has done. Its exported fields are its configuration.
type Prune struct {
	Outbox    *Outbox
	OlderThan time.Duration // how long a row must have been done
	Failed    bool          // failed rows count as done
	Selection Selection     // the rows to consider; Since and Until refer to the time of insert
	// Rest returns the length of the pause after a transaction, as a multiple of the transaction's duration.
	Rest func() float64
	// Row is called for each deleted row, after its transaction; may be nil.
	Row func(id string) error
	// Done is called after each transaction with the number of rows deleted so far; may be nil.
	Done func(deleted int64)
	// Locked is called at the end with the number of rows that another session kept locked, also when they were tried once
	// more; may be nil, and then they are not counted.
	Locked func(rows int64)
	// Dropped is called for each partition that was dropped whole; may be nil. Its rows are not counted.
	Dropped func(partition string)
	// DryRun deletes nothing, and reports the rows as if it had.
	DryRun bool
}

// A NoIndexError says that no index leads to the rows to be deleted.
type NoIndexError struct {
	Table, Statement string
}

func (e *NoIndexError) Error() string {
	return fmt.Sprintf("no index of table %s leads to the rows that are done, and to go through the whole table for them "+
		"again and again is too much for a database: run %s", e.Table, e.Statement)
}

const (
	mostPrune  = 2000 // rows that one transaction deletes
	leastPrune = 50
	// pruneSlow is the duration above which the next transaction deletes fewer rows, and pruneQuick the one below which it
	// deletes more.
	pruneSlow, pruneQuick = 80 * time.Millisecond, 20 * time.Millisecond
	// pruneTime bounds each statement, and pruneBrief one that deletes more than the least number of rows: while the disk
	// or others are busy, many rows at once would keep the application's statements waiting. A statement that is cut off
	// is tried again with the least number.
	pruneTime, pruneBrief = 5 * time.Second, 150 * time.Millisecond
	// smallTable is the largest size at which a table is scanned by id.
	smallTable = 16 << 20
)

// way is an index by which the rows to be deleted are found.
type way struct {
	column  outbox.Column
	bounded bool // rows beyond the cutoff cannot have been done for long enough
}

// Run deletes what may be deleted, and returns the number of deleted rows. When ctx ends, it stops after the current
// transaction.
func (p *Prune) Run(ctx context.Context) (deleted int64, err error) {
	if e := p.Outbox.Strangers(); e != nil {
		return 0, e
	}
	var cutoff time.Time
	if err := p.Outbox.Pool.QueryRow(ctx, "select now() - $1::interval", p.OlderThan).Scan(&cutoff); err != nil {
		return 0, fmt.Errorf("prune: %w", err)
	}
	if err := p.drop(ctx, cutoff); err != nil {
		return 0, err
	}
	ways, err := p.ways(ctx)
	if err != nil {
		return 0, err
	}
	locked := int64(0)
	for _, w := range ways {
		n, left, err := p.follow(ctx, w, cutoff, deleted)
		deleted += n
		locked += left
		if err != nil {
			return deleted, fmt.Errorf("prune: %w", err)
		}
	}
	if p.Locked != nil {
		p.Locked(locked)
	}
	return deleted, nil
}

// ways returns the indexes to follow, one after the other.
func (p *Prune) ways(ctx context.Context) ([]way, error) {
	n := p.Outbox.base()
	indexed := func(c outbox.Column, every bool) bool { return c.Has() && n.Indexed(c, every) }
	if indexed(n.Inserted, true) {
		return []way{{n.Inserted, true}}, nil
	}
	wanted := n.Inserted
	for _, s := range p.Outbox.sets() { // the index of a set that takes every row: each row that is done has a time there
		if !p.Outbox.takesAll(s) || !s.names.Relayed.Has() || p.Outbox.optional(s) && !p.Outbox.allOptional() {
			continue
		}
		wanted = s.names.Relayed
		if !indexed(wanted, false) {
			continue
		}
		ways := []way{{wanted, true}}
		if failed := s.names.Failed; p.Failed && failed.Has() {
			if !indexed(failed, false) {
				return nil, p.noIndex(failed)
			}
			ways = append(ways, way{failed, true})
		}
		return ways, nil
	}
	if indexed(n.Order, true) {
		return []way{{n.Order, false}}, nil
	}
	var size int64
	if err := p.Outbox.Pool.QueryRow(ctx, sql.Text("prune_size.sql", nil), n.Table).Scan(&size); err != nil {
		return nil, fmt.Errorf("look at the table's size: %w", err)
	}
	if n.IDIndexed && size <= smallTable {
		return []way{{n.ID, false}}, nil
	}
	return nil, p.noIndex(wanted)
}

func (p *Prune) noIndex(c outbox.Column) error {
	n := p.Outbox.base()
	how := "create index concurrently on "
	if n.Partitioned {
		how = "create index on "
	}
	where := " where " + c.Name + " is not null"
	if c.Name == n.Inserted.Name {
		where = ""
	}
	return &NoIndexError{n.Table, how + n.Table + " (" + c.Name + ")" + where}
}

// done is the condition that every destination that is waited for has been done with a row for long enough; $2 is the
// cutoff. These are the required ones, and for a row that none of them takes the best-effort ones. A row that no
// destination takes is kept.
func (p *Prune) done() string {
	required, takers := p.doneAt(false)
	optional, others := p.doneAt(true)
	switch {
	case others == "":
		return required + " and (" + takers + ")"
	case takers == "":
		return optional + " and (" + others + ")"
	}
	return fmt.Sprintf("%s and (coalesce(%s, false) or %s and (%s))", required, takers, optional, others)
}

// doneAt is the condition that the required destinations, or the best-effort ones, have been done with a row for long
// enough, and the condition that one of them takes it as it is inserted, empty if there is none.
func (p *Prune) doneAt(optional bool) (done, takes string) {
	var takers []string
	all := []string{"true"}
	for _, s := range p.Outbox.sets() {
		n := s.names
		var taken, ended []string
		for _, i := range s.views {
			if p.Outbox.Views[i].Optional == optional {
				taken = append(taken, p.Outbox.takes(i))
			}
		}
		if len(taken) == 0 {
			continue
		}
		if n.Came == "" {
			takers = append(takers, taken...)
		}
		if n.Relayed.Has() {
			ended = append(ended, n.Relayed.Name+" < "+n.Relayed.At("$2"))
		}
		if p.Failed && n.Failed.Has() {
			end := n.Failed.Name + " < " + n.Failed.At("$2")
			if n.Relayed.Has() {
				end += " and " + n.Relayed.Name + " is null"
			}
			ended = append(ended, end)
		}
		if len(ended) == 0 {
			ended = []string{pattern.Never}
		}
		all = append(all, fmt.Sprintf("(%s or not coalesce(%s, false))", strings.Join(ended, " or "), strings.Join(taken,
			" or ")))
	}
	return strings.Join(all, " and "), strings.Join(takers, " or ")
}

// follow goes along an index, one window after another. The values in a window may all be equal: one UPDATE may have
// marked millions of rows.
func (p *Prune) follow(ctx context.Context, w way, cutoff time.Time, before int64) (deleted, locked int64, err error) {
	n := p.Outbox.base()
	values := parameters{nil, cutoff, nil, nil}
	selected, err := p.selected(n, &values)
	if err != nil {
		return 0, 0, err
	}
	within := w.column.Name + " is not null"
	if w.bounded {
		within = w.column.Name + " < " + w.column.At("$2")
	}
	s := &pruning{Prune: p, values: values, rows: leastPrune, deleted: before, names: map[string]string{
		"table": n.Table, "identity": n.Identity, "here": n.HereOf("select identity from chosen"), "id": n.ID.Name,
		"column": w.column.Name, "ready": p.done() + selected,
	}}
	at := func(parameter string) string { return parameter + "::text::" + w.column.Type }
	s.beyond = fmt.Sprintf("$2::timestamptz is not null and %s and ($3::text is null or %s > %s)", within,
		w.column.Name, at("$3"))
	s.whole = s.beyond + fmt.Sprintf(" and ($4::text is null or %s <= %s)", w.column.Name, at("$4"))
	var again [][2]any // windows with rows that another session kept locked: most locks are short
	for more := true; more && ctx.Err() == nil; {
		end, err := s.window(context.WithoutCancel(ctx))
		if err != nil {
			return s.deleted - before, 0, err
		}
		s.values[3], more = end, end != nil
		left, err := s.clear(ctx)
		if err != nil {
			return s.deleted - before, 0, err
		}
		if left > 0 {
			again = append(again, [2]any{s.values[2], end})
		}
		s.values[2] = end
	}
	for _, window := range again {
		s.values[2], s.values[3] = window[0], window[1]
		left, err := s.clear(ctx)
		if locked += left; err != nil {
			return s.deleted - before, locked, err
		}
	}
	return s.deleted - before, locked, nil
}

// selected is the selection in SQL, to be added to another condition. The last error is that of the chosen destination,
// or of any.
func (p *Prune) selected(n outbox.Names, values *parameters) (string, error) {
	rows := p.Selection
	rows.Error = ""
	selected, err := rows.condition(n, n.Inserted, values)
	if err != nil {
		return "", err
	}
	chosen, err := p.Outbox.chosen(p.Selection)
	if err != nil {
		return "", err
	}
	if p.Selection.Destination != "" {
		selected += " and " + p.Outbox.takes(chosen[0].views[0])
	}
	if p.Selection.Error == "" {
		return selected, nil
	}
	var errs []string
	for _, s := range chosen {
		condition, err := Selection{Error: p.Selection.Error}.condition(s.names, s.names.Inserted, values)
		if err != nil {
			return "", err
		}
		errs = append(errs, strings.TrimPrefix(condition, " and "))
	}
	return selected + " and (" + strings.Join(errs, " or ") + ")", nil
}

// pruning is the progress of a prune along an index.
type pruning struct {
	*Prune
	names         map[string]string
	beyond, whole string     // conditions for rows after the position, and for those in the window
	values        parameters // parameters of a window
	rows          int        // number of rows that one transaction deletes
	deleted       int64
}

// clear deletes the rows of a window, or reports them all in a dry run. It returns how many of them another session
// keeps locked, if somebody wants to know.
func (s *pruning) clear(ctx context.Context) (locked int64, err error) {
	asking := context.WithoutCancel(ctx)
	if s.DryRun {
		ids, err := s.list(asking)
		if err == nil {
			err = s.report(ids)
		}
		return 0, err
	}
	for full := true; full && ctx.Err() == nil; {
		started := time.Now()
		ids, err := s.step(asking)
		took := time.Since(started)
		if timeout(err) && s.rows > leastPrune {
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
		s.adapt(took)
		if len(ids) > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(s.Rest() * float64(took))):
			}
		}
	}
	if s.Locked != nil && ctx.Err() == nil {
		left, err := s.list(asking)
		return int64(len(left)), err
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

// adapt keeps transactions short.
func (s *pruning) adapt(took time.Duration) {
	switch {
	case took > pruneSlow:
		s.rows = max(s.rows/2, leastPrune)
	case took < pruneQuick:
		s.rows = min(2*s.rows, mostPrune)
	}
}

// window returns the end of the next window, nil if it has none.
func (s *pruning) window(ctx context.Context) (end any, err error) {
	found, err := s.ask(ctx, pruneTime, "prune_window.sql", s.beyond, parameters{2 * s.rows, s.values[1], s.values[2]})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// step deletes rows of the window.
func (s *pruning) step(ctx context.Context) ([]string, error) {
	s.values[0] = s.rows
	limit := pruneTime
	if s.rows > leastPrune {
		limit = pruneBrief
	}
	return s.ask(ctx, limit, "prune_delete.sql", s.whole, s.values)
}

// list lists the rows of the window that may be deleted.
func (s *pruning) list(ctx context.Context) ([]string, error) {
	s.values[0] = nil
	return s.ask(ctx, pruneTime, "prune_list.sql", s.whole, s.values)
}

// ask runs a statement in a transaction of its own. The server ends a statement that takes longer than the limit.
func (s *pruning) ask(ctx context.Context, limit time.Duration, file, condition string, values parameters,
) (texts []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*pruneTime)
	defer cancel()
	s.names["within"] = condition
	err = within(ctx, s.Outbox.Pool, limits{statement: limit, lock: pruneTime, inOrder: true}, func(tx pgx.Tx) error {
		// Otherwise its select would lock the table first, and a migration could be a deadlock's victim.
		if file == "prune_delete.sql" {
			if _, err := tx.Exec(ctx, sql.Text("lock_delete.sql", s.names)); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, sql.Text(file, s.names), values...)
		if err != nil {
			return err
		}
		texts, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return texts, err
}
