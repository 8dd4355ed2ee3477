package outbox

import (
	"context"
	"encoding/binary"
	"fmt"
)

// Columns of a swept row, after those of [atSnapshot] to [atNow].
const (
	sweptHash = iota + atAfter
	sweptKeyless
	sweptShard
	sweptWriter
	sweptID
	sweptOrder
	sweptRank
	sweptIdentity
	sweptTopic
)

// Sweep reads pending rows in table order, without their contents: see [SweepQuery].
func (t *Table) Sweep(ctx context.Context, q SweepQuery) (SweepPage, error) {
	parameters, after, upto := [][]byte{number(int64(q.Rows)), shardArray(q.Shards)}, 0, 0
	if !q.After.IsZero() {
		parameters, after = append(parameters, t.mapping.position().parameters(q.After)...), 1
	}
	if !q.Upto.IsZero() {
		parameters, upto = append(parameters, t.mapping.position().parameters(q.Upto)...), 1
	}
	rows, err := t.query(ctx, limits{inOrder: t.mapping.followed, generic: true}, t.sweeps[after][upto], parameters...)
	if err != nil {
		return SweepPage{}, fmt.Errorf("sweep rows: %w", err)
	}
	page := SweepPage{Full: len(rows)-1 == q.Rows}
	for _, values := range rows {
		if values[atSnapshot] != nil {
			page.Visible.parse(values)
			continue
		}
		r := SweptRow{
			Topic: string(values[sweptTopic]), Hash: uint64(ordinal(values[sweptHash])),
			Keyless: values[sweptKeyless][0] != 0, Shard: int(ordinal(values[sweptShard])),
			Identity: string(values[sweptIdentity]),
			Position: Position{
				rank: string(values[sweptRank]), order: string(values[sweptOrder]), id: string(values[sweptID]),
				nulls: values[sweptOrder] == nil, Ordinal: ordinal(values[sweptOrder]),
			},
		}
		if values[sweptIdentity] == nil {
			r.Identity = r.Position.id
		}
		r.Writer = page.Visible.widen(binary.BigEndian.Uint32(values[sweptWriter]))
		page.Rows = append(page.Rows, r)
	}
	return page, nil
}

// Blocked reads the keys of failed rows: see [BlockedQuery].
func (t *Table) Blocked(ctx context.Context, q BlockedQuery) (BlockedPage, error) {
	statement, parameters := t.blocked, [][]byte{number(int64(q.Rows)), shardArray(q.Shards)}
	if !q.After.IsZero() {
		statement, parameters = t.blockedAfter, append(parameters, []byte(q.After.order), []byte(q.After.id))
	}
	rows, err := t.query(ctx, limits{inOrder: true, generic: true}, statement, parameters...)
	if err != nil {
		return BlockedPage{}, fmt.Errorf("read failed rows: %w", err)
	}
	page := BlockedPage{Full: len(rows) == q.Rows}
	for _, row := range rows {
		page.Keys = append(page.Keys, BlockedKey{Hash: binary.BigEndian.Uint64(row[2]), Shard: int(ordinal(row[3]))})
		page.End = Position{order: string(row[0]), id: string(row[1])}
	}
	return page, nil
}
