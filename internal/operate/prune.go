package operate

import (
	"context"
	"fmt"
	"strings"
	"time"

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
	// Rest is the length of the pause after a transaction, as a multiple of the transaction's duration.
	Rest int
	// Row is called for each deleted row, after its transaction; may be nil.
	Row func(id string) error
	// Done is called after each transaction with the number of rows deleted so far; may be nil.
	Done func(deleted int64)
	// Locked is called at the end with the number of rows that another session kept locked; may be nil, and then they
	// are not counted.
	Locked func(rows int64)
	// DryRun deletes nothing, and reports the rows as if it had.
	DryRun bool
}

const (
	mostPrune  = 2000 // rows that one transaction deletes
	leastPrune = 50
	// pruneSlow is the duration above which the next transaction deletes fewer rows, and pruneQuick the one below which
	// it deletes more.
	pruneSlow, pruneQuick = 80 * time.Millisecond, 20 * time.Millisecond
	// pruneTime bounds each statement, and pruneBrief one that deletes more than the least number of rows: while the
	// disk or others are busy, many rows at once would keep the application's statements waiting. A statement that is
	// cut off is tried again with the least number.
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
	if err := p.Outbox.Strangers(); err != nil {
		return 0, err
	}
	var cutoff time.Time
	if err := p.Outbox.Pool.QueryRow(ctx, "select now() - $1::interval", p.OlderThan).Scan(&cutoff); err != nil {
		return 0, fmt.Errorf("prune: %w", err)
	}
	ways, err := p.ways(ctx)
	if err != nil {
		return 0, err
	}
	s := &pruning{Prune: p, rows: leastPrune}
	for _, w := range ways {
		if err := s.follow(ctx, w, cutoff); err != nil {
			return s.deleted, fmt.Errorf("prune: %w", err)
		}
	}
	if p.Locked != nil {
		p.Locked(s.locked)
	}
	return s.deleted, nil
}

// ways returns the indexes to follow, one after the other.
func (p *Prune) ways(ctx context.Context) ([]way, error) {
	n := p.Outbox.base()
	indexed := func(c outbox.Column, every bool) bool { return c.Has() && n.Indexed(c, every) }
	if indexed(n.Inserted, true) {
		return []way{{n.Inserted, true}}, nil
	}
	wanted := n.Inserted
	// The index of a set that takes every row: each row that is done has a time there.
	for _, s := range p.Outbox.sets() {
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
	how, where := "create index concurrently on", " where "+c.Name+" is not null"
	if n.Partitioned {
		how = "create index on"
	}
	if c.Name == n.Inserted.Name {
		where = ""
	}
	return fmt.Errorf("no index of table %s leads to the rows that are done, and to go through the whole table for "+
		"them again and again is too much for a database: run %s %[1]s (%[3]s)%[4]s", n.Table, how, c.Name, where)
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
		all = append(all, fmt.Sprintf("(%s or not coalesce(%s, false))", strings.Join(ended, " or "),
			strings.Join(taken, " or ")))
	}
	return strings.Join(all, " and "), strings.Join(takers, " or ")
}

// selected is the selection in SQL, to be added to another condition. The last error is that of the chosen destination,
// or of any.
func (p *Prune) selected(n outbox.Names, values *parameters) (string, error) {
	chosen, err := p.Outbox.chosen(p.Selection)
	if err != nil {
		return "", err
	}
	if p.Selection.Error == "" {
		chosen = chosen[:1] // whatever else is selected is the same in every set
	}
	var anywhere []string
	for _, s := range chosen {
		condition, err := p.Selection.condition(s.names, n.Inserted, values)
		if err != nil {
			return "", err
		}
		if p.Selection.Destination != "" {
			condition += " and " + p.Outbox.takes(s.views[0])
		}
		anywhere = append(anywhere, "true"+condition)
	}
	return " and (" + strings.Join(anywhere, " or ") + ")", nil
}
