package outbox

import (
	"context"
	"fmt"
	"math"
)

// A FailedRow is a row that has failed and has a key.
type FailedRow struct {
	Key, Topic string
	Ordinal    int64 // as in [Position]; math.MinInt64 without an order value
}

// A FailedPage is a part of the failed rows, in the order in which they failed.
type FailedPage struct {
	Rows []FailedRow
	End  Position // the position after which the next page begins; set if More is
	More bool     // there may be further rows
}

// Failed reads failed rows that have a key, after the position at which an earlier page ended. It obeys After, Back, Shards and
// Limit of the query, and locks nothing. The table must keep failures and must have been opened with BlockFailed.
func (t *Table) Failed(ctx context.Context, q Query) (FailedPage, error) {
	var at, id []byte
	if !q.After.IsZero() {
		at, id = []byte(q.After.order), []byte(q.After.id)
	}
	var back []byte
	if q.Back > 0 {
		back = number(q.Back.Microseconds())
	}
	statement, parameters := t.failedAll, [][]byte{number(int64(q.Limit)), at, id, back}
	if q.Shards != nil {
		statement, parameters = t.failedSome, append(parameters, shardArray(q.Shards))
	}
	rows, err := t.query(ctx, limits{inOrder: true}, statement, parameters...)
	if err != nil {
		return FailedPage{}, fmt.Errorf("read failed rows: %w", err)
	}
	page := FailedPage{Rows: make([]FailedRow, 0, len(rows)), More: len(rows) == q.Limit}
	for _, row := range rows {
		at := ordinal(row[2])
		if row[2] == nil { // such rows come before all others
			at = math.MinInt64
		}
		page.Rows = append(page.Rows, FailedRow{Key: string(row[4]), Topic: string(row[3]), Ordinal: at})
	}
	if page.More {
		last := rows[len(rows)-1]
		page.End = Position{order: string(last[0]), id: string(last[1])}
	}
	return page, nil
}
