package outbox

import (
	"context"
	"fmt"
	"time"
)

// Tail reads a page of pending rows in table order: see [TailQuery].
func (t *Table) Tail(ctx context.Context, q TailQuery) (TailPage, error) {
	statement, parameters := t.tailStatement(&q)
	a, err := t.ask(ctx, limits{inOrder: q.Due || t.mapping.followed}, statement, parameters, q.Most)
	if err == nil && q.Due {
		a.Next, err = t.untilNextDue(ctx)
	}
	return a, err
}

// Exact reports whether [Row.Writer] is the top-level transaction that inserted the row.
func (t *Table) Exact() bool { return t.mapping.Txid.Has() }

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
	statements, place := &t.tail, t.mapping.position()
	if q.Due {
		statements, place = &t.dueTail, t.mapping.duePosition()
	}
	after := place.parameters(q.After)
	parameters := [][]byte{number(int64(q.Rows)), shardArray(q.Shards), nil}
	if q.Seen == nil {
		if q.After.IsZero() {
			return statements[tailAll], parameters
		}
		return statements[tailAfter], append(parameters, after...)
	}
	parameters = append(append(parameters, after...), q.Seen.binary())
	if t.Delays() {
		parameters = append(parameters, number(q.Seen.Now.Sub(epoch).Microseconds()))
	}
	if q.Low == nil || !t.Ordinal() || t.mapping.Rank.Has() || q.Due {
		return statements[tailSeen], parameters
	}
	low := *q.Low
	if !q.After.IsZero() {
		low = min(low, q.After.Ordinal)
	}
	return statements[tailLow], append(parameters, t.ordinalValue(low))
}

// untilNextDue returns the time until the next row of any shard or destination becomes due, 0 if there is none.
func (t *Table) untilNextDue(ctx context.Context) (time.Duration, error) {
	rows, err := t.query(ctx, limits{inOrder: true}, t.description.text("next_due.sql"))
	if err != nil {
		return 0, fmt.Errorf("find the next row that becomes due: %w", err)
	}
	if len(rows) == 0 {
		return 0, nil
	}
	return untilDue(rows[0][0]), nil
}
