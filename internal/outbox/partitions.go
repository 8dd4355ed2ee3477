package outbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Each statement opens every partition that it might have to look at, with all of its indexes. With a year of days that
// takes twenty times as long as the statement itself. So the statements of a table that is partitioned by time name the
// partitions that hold pending rows, and those of the present hours, where new rows go.
//
// Rows that are inserted into any other partition are found at the next look at the catalogue ([Table.Current]), which
// then reports that the table has changed: everything is read from the beginning again, with their partition.

// manyPartitions is the number of partitions from which statements name some of them.
const manyPartitions = 8

// partitions are the partitions of a table by time. All views of the table share them.
type partitions struct {
	column string // quoted
	typ    string
	spans  []span // in order, and with the gaps between them if there is a default partition

	mu   sync.Mutex
	live map[string]*livePartitions // by the condition of pending rows
}

// A span is the bounds of a partition, or a gap between partitions: the lower bound inclusive, the upper one exclusive.
// A bound that is empty is none.
type span struct{ low, high string }

// livePartitions are the spans that a view's statements name.
type livePartitions struct {
	spans     []span
	condition string // followed by and; empty for all partitions
}

// partitionMark stands in the statements where the condition on partitions goes.
const partitionMark = "/*partitions*/ "

// readPartitions looks up the partitions.
func (r *relation) readPartitions(ctx context.Context, conn *pgx.Conn) error {
	if r.kind != "p" {
		return nil
	}
	rows, err := conn.Query(ctx, sql.Text("catalogue_partitions.sql", nil), pgx.QueryExecModeExec, r.oid)
	if err != nil {
		return err
	}
	defer rows.Close()
	p, others := &partitions{live: map[string]*livePartitions{}}, false
	var column string
	var isDefault bool
	var s span
	_, err = pgx.ForEachRow(rows, []any{&column, &p.typ, &s.low, &s.high, &isDefault}, func() error {
		r.partitions++
		switch {
		case column == "":
		case isDefault:
			others = true
		default:
			p.column = sql.Quote(column)
			p.spans = append(p.spans, s)
		}
		return nil
	})
	if err != nil || len(p.spans) < manyPartitions {
		return err
	}
	if others {
		p.spans = withGaps(p.spans)
	}
	r.parts = p
	return nil
}

// withGaps returns spans with the gaps between them, before the first and after the last.
func withGaps(spans []span) (all []span) {
	end := ""
	for i, s := range spans {
		if s.low != "" && (i == 0 || end != "" && end != s.low) {
			all = append(all, span{end, s.low})
		}
		all, end = append(all, s), s.high
	}
	if end != "" {
		all = append(all, span{end, ""})
	}
	return all
}

// mark is what stands in statements for the condition on partitions.
func (r *relation) partitionMark() string {
	if r.parts == nil {
		return ""
	}
	return partitionMark
}

// condition returns the condition on partitions for the statements of a view, followed by and. It is empty if it cannot
// be found out.
func (t *Table) partitionCondition(ctx context.Context, conn *pgx.Conn) string {
	p := t.relation.parts
	pending, _ := t.mapping.pending()
	p.mu.Lock()
	live, spans := p.live[pending], p.spans
	p.mu.Unlock()
	if live != nil {
		return live.condition
	}
	live, _, err := t.lookForLive(ctx, conn, pending, spans)
	if err != nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[pending] = live
	return live.condition
}

// lookForLive finds the partitions that statements have to name, and which of them hold pending rows.
func (t *Table) lookForLive(
	ctx context.Context, conn *pgx.Conn, pending string, spans []span,
) (live *livePartitions, holding []span, err error) {
	p := t.relation.parts
	lows := each(spans, func(s span) string { return s.low })
	highs := each(spans, func(s span) string { return s.high })
	statement := sql.Text("live_partitions.sql", description{
		"table": t.Quoted(), "pending": pending, "part_key": p.column, "part_type": p.typ,
	})
	look := t.beginPlain(ctx, conn, limits{inOrder: true, generic: true})
	look.add(statement, [][]byte{array(pgtype.TextOID, lows), array(pgtype.TextOID, highs)}, binaryFormats(2), []int16{1})
	look.send(ctx)
	live = &livePartitions{}
	for result := look.next(); result != nil && result.NextRow(); {
		s := spans[ordinal(result.Values()[0])-1]
		if live.spans = append(live.spans, s); result.Values()[1][0] != 0 {
			holding = append(holding, s)
		}
	}
	if err := look.results.Close(); err != nil {
		return nil, nil, fmt.Errorf("look for partitions with pending rows: %w", look.failed(ctx, err))
	}
	live.condition = p.named(live.spans)
	return live, holding, nil
}

// named is the condition that a row is in one of some spans.
func (p *partitions) named(some []span) string {
	var ranges []string
	for i := 0; i < len(some); i++ {
		s := some[i]
		for i+1 < len(some) && s.high != "" && some[i+1].low == s.high {
			i++
			s.high = some[i].high
		}
		var bounds []string
		if s.low != "" {
			bounds = append(bounds, p.column+" >= "+sql.Literal(s.low))
		}
		if s.high != "" {
			bounds = append(bounds, p.column+" < "+sql.Literal(s.high))
		}
		if bounds == nil { // a single partition without bounds
			return ""
		}
		ranges = append(ranges, strings.Join(bounds, " and "))
	}
	if ranges == nil { // nothing is pending, and no partition is of the present
		return ""
	}
	return "(" + strings.Join(ranges, " or ") + ") and "
}

// followPartitions looks again which partitions the statements of all views have to name. It reports whether rows are
// pending in a partition that no statement has named so far.
func (t *Table) followPartitions(ctx context.Context, found *relation) (grown bool, err error) {
	p := t.relation.parts
	if p == nil || found.parts == nil {
		return (p == nil) != (found.parts == nil), nil
	}
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return false, fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	p.mu.Lock()
	before := maps.Clone(p.live)
	p.mu.Unlock()
	for pending, then := range before {
		live, holding, err := t.lookForLive(ctx, conn.Conn(), pending, found.parts.spans)
		if err != nil {
			return false, err
		}
		for _, s := range holding {
			grown = grown || then.condition != "" && !slices.Contains(then.spans, s)
		}
		before[pending] = live
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spans = found.parts.spans
	maps.Copy(p.live, before)
	return grown, nil
}
