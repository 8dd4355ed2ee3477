package outbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
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

// swept returns what a sweep selects of a row.
func (t *Table) swept() []string {
	m, b := t.mapping, bounds{most: strconv.Itoa(shortText)}
	return []string{
		m.keyHash(), "(" + m.Key + ") is null", m.shard(), m.writer, m.ID.Name, m.Order.Name, m.rankOrNull(),
		m.identityOrNull(), b.text(m.topicText, t.relation.texts[m.topicText]),
	}
}

// Sweep reads pending rows in table order, without their contents: see [SweepQuery].
func (t *Table) Sweep(ctx context.Context, q SweepQuery) (SweepPage, error) {
	parameters, limit, place := [][]byte{number(int64(q.Rows)), shardArray(q.Shards)}, "", t.mapping.position()
	bound := func(operator string, at Position) {
		if !at.IsZero() {
			limit += " and " + place.compared(operator, len(parameters)+1)
			parameters = append(parameters, place.parameters(at)...)
		}
	}
	bound(">", q.After)
	bound("<=", q.Upto)
	rows, err := t.query(ctx, limits{inOrder: t.mapping.followed},
		t.sweep.text("sweep.sql", "range", limit), parameters...)
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
	d, parameters := t.description.with("range", ""), [][]byte{number(int64(q.Rows)), shardArray(q.Shards)}
	d["failed_at"] = t.mapping.Failed.Name
	if !q.After.IsZero() {
		d["range"] = fmt.Sprintf(" and (%s, %s) > ($3, $4)", d["failed_at"], d["id"])
		parameters = append(parameters, []byte(q.After.order), []byte(q.After.id))
	}
	rows, err := t.query(ctx, limits{inOrder: true}, d.text("blocked.sql"), parameters...)
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
