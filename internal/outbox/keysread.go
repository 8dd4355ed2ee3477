package outbox

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/jackc/pgx/v5/pgtype"
)

// KeyIndexed reports whether an index leads to the pending rows of a key ([Table.Keys]).
func (t *Table) KeyIndexed() bool { return t.mapping.keyIndex }

// Keys reads the first pending rows of some keys, up to 500, in one statement. Most bounds the page; each key has a
// limit of its own, too. It uses an index by key where there is one ([Table.KeyIndexed]) and otherwise passes once over
// the pending rows. With Due it reads rows with available_at, where they have a read of their own.
func (t *Table) Keys(ctx context.Context, q Query) (Page, error) {
	n := len(q.Asks)
	hashes, most, lows, of := make([][]byte, n), make([][]byte, n), make([][]byte, n), make(map[uint64]int, n)
	for i, a := range q.Asks {
		low := int64(math.MinInt64) // before all others; as a time it is -infinity
		if a.From != nil {
			low = *a.From
		}
		hashes[i], lows[i] = number(int64(a.Hash)), t.ordinalValue(low)
		most[i] = binary.BigEndian.AppendUint32(nil, uint32(min(a.Limit, q.Rows)))
		of[a.Hash] = i
	}
	statement, l := t.keys, limits{inOrder: t.mapping.keyIndex}
	if q.Due {
		statement, l = t.dueKeys, limits{}
	}
	parameters := [][]byte{number(int64(q.Rows)), array(pgtype.Int8OID, hashes), nil, array(pgtype.Int4OID, most)}
	if t.Ordinal() && !q.Due {
		parameters = append(parameters, array(t.mapping.Order.OID, lows))
	}
	a, err := t.ask(ctx, l, statement, parameters, q.Most)
	page := Page{Keys: make([]KeyRows, n), Visible: a.Visible, Wants: a.Wants}
	if err != nil {
		return page, err
	}
	for _, row := range a.Rows {
		k := &page.Keys[of[row.Hash]]
		k.Rows = append(k.Rows, row)
	}
	for i := range page.Keys {
		k := &page.Keys[i]
		k.All = !a.Full && len(k.Rows) < min(q.Asks[i].Limit, q.Rows)
	}
	return page, nil
}
