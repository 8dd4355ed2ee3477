package outbox

import (
	"context"
	"fmt"
	"time"
)

// Tail reads a page of pending rows in table order: see [TailQuery].
func (t *Table) Tail(ctx context.Context, q TailQuery) (TailPage, error) {
	statement, parameters := t.tailStatement(&q)
	a, err := t.ask(ctx, limits{inOrder: q.Due || t.mapping.followed, generic: true}, statement, parameters, q.Most)
	page := TailPage{Rows: a.rows, Full: a.full, Visible: a.visible, Distance: a.distance, Wants: a.wants}
	if err == nil && q.Due {
		page.Next, err = t.untilNextDue(ctx)
	}
	return page, err
}

// Exact reports whether [Row.Writer] is the top-level transaction that inserted the row.
func (t *Table) Exact() bool { return t.mapping.txid != nil }

// Places of the statements of a tail in tails, which depend on what the query names.
const (
	tailAll   = iota // neither After nor Seen
	tailAfter        // After
	tailSeen         // Seen
	tailLow          // Seen and Low
)

// tails are the statements of one tail.
type tails [4]string

func (t *Table) tailStatement(q *TailQuery) (string, [][]byte) {
	statements, place := &t.tail, t.placeOf
	if q.Due {
		statements, place = &t.dueTail, t.duePlaceOf
	}
	parameters := [][]byte{number(int64(q.Rows)), nil, nil}
	if q.Shards != nil {
		parameters[1] = shardArray(q.Shards)
	}
	if q.Seen == nil || !t.mapping.written {
		if q.After.IsZero() {
			return statements[tailAll], parameters
		}
		return statements[tailAfter], append(parameters, place(q.After)...)
	}
	parameters = append(append(parameters, place(q.After)...), q.Seen.binary())
	if t.Delays() {
		parameters = append(parameters, number(q.Seen.Now.Sub(epoch).Microseconds()))
	}
	if q.Low == nil || !t.Ordinal() || t.mapping.rank != nil || q.Due {
		return statements[tailSeen], parameters
	}
	low := *q.Low
	if !q.After.IsZero() {
		low = min(low, q.After.Ordinal)
	}
	return statements[tailLow], append(parameters, t.ordinalValue(low))
}

// placeOf returns the parameters of a position in table order, nulls for none.
func (t *Table) placeOf(p Position) [][]byte {
	values := make([]string, 0, 3)
	if t.mapping.rank != nil {
		values = append(values, p.rank)
	}
	if t.mapping.order != t.mapping.id {
		values = append(values, p.order)
	}
	parameters := texts(append(values, p.id), p.IsZero())
	if p.nulls && t.mapping.order != t.mapping.id {
		parameters[len(parameters)-2] = nil // nothing comes after it for certain
	}
	return parameters
}

// untilNextDue returns the time until the next row of any shard or destination becomes due, 0 if there is none.
func (t *Table) untilNextDue(ctx context.Context) (time.Duration, error) {
	rows, err := t.query(ctx, limits{inOrder: true, generic: true}, t.nextDue)
	if err != nil {
		return 0, fmt.Errorf("find the next row that becomes due: %w", err)
	}
	if len(rows) == 0 {
		return 0, nil
	}
	return untilDue(rows[0][0]), nil
}

// duePlaceOf is placeOf for rows that are read by the time at which they are due.
func (t *Table) duePlaceOf(p Position) [][]byte {
	values := []string{p.due}
	if t.mapping.rank != nil {
		values = append(values, p.rank)
	}
	if t.mapping.order != t.mapping.id && t.mapping.order.NotNull {
		values = append(values, p.order)
	}
	return texts(append(values, p.id), p.IsZero())
}

func texts(values []string, none bool) [][]byte {
	parameters := make([][]byte, len(values))
	for i, value := range values {
		if !none {
			parameters[i] = []byte(value)
		}
	}
	return parameters
}
