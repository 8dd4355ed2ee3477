package outbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
)

// Tail reads a page of pending rows in table order: see [Query].
func (t *Table) Tail(ctx context.Context, q Query) (Page, error) {
	statement, parameters := t.pageStatement(&q)
	l := limits{inOrder: q.Due || t.mapping.followed}
	if q.Sweep {
		parameters[2] = number(shortText)
		return t.askOnce(ctx, l, statement, parameters, Most{Rows: q.Rows, Bytes: math.MaxInt64}, maxText)
	}
	return t.ask(ctx, l, statement, parameters, q.Most)
}

// ReadsDue reports whether rows with available_at have a read of their own ([Query.Due]), since there is an index of
// due times. The reads in table order then leave these rows out: a million rows that are scheduled for next week cost
// neither kind of read anything.
func (t *Table) ReadsDue() bool { return t.mapping.dueIndex }

// Exact reports whether [Row.Writer] is the top-level transaction that inserted the row.
func (t *Table) Exact() bool { return t.mapping.Txid.Has() }

// Blocked reads the keys of failed rows, in the order in which they failed: of each the hash, the shard and the
// position, after which the next page begins. A key may come several times. Rows without a key are left out.
func (t *Table) Blocked(ctx context.Context, q Query) (Page, error) {
	p, after := parameters{number(int64(q.Rows)), shardArray(q.Shards)}, ""
	if failed := t.mapping.Failed.Name; !q.After.IsZero() {
		at := q.After.values
		after = fmt.Sprintf(" and (%s, %s) > (%s, %s)", failed, t.description["id"], p.add([]byte(at[orderValue])),
			p.add([]byte(at[idValue])))
	}
	rows, err := t.query(ctx, limits{inOrder: true},
		t.description.text("blocked.sql", "failed_at", t.mapping.Failed.Name, "range", after), p...)
	if err != nil {
		return Page{}, fmt.Errorf("read failed rows: %w", err)
	}
	page := Page{Full: len(rows) == q.Rows}
	for _, row := range rows {
		page.Rows = append(page.Rows, Row{
			Hash: binary.BigEndian.Uint64(row[2]), Shard: int(ordinal(row[3])),
			Position: Position{values: [4]string{orderValue: string(row[0]), idValue: string(row[1])}},
		})
	}
	return page, nil
}
