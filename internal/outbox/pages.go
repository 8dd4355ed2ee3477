package outbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Tail reads a page of pending rows in table order: see [Query].
func (t *Table) Tail(ctx context.Context, q Query) (Page, error) {
	r := &t.tail
	if q.Due {
		r = &t.dueTail
	} else if q.Sweep {
		r = &t.sweep
	}
	return t.ask(ctx, r.of(t, &q), q.Most)
}

// Blocked reads the keys of failed rows, in the order in which they failed: of each the hash, the shard and the
// position, after which the next page begins. A key may come several times. Rows without a key are left out.
func (t *Table) Blocked(ctx context.Context, q Query) (Page, error) {
	return t.ask(ctx, t.failed.of(t, &q), q.Most)
}

// ReadsDue reports whether rows with available_at have a read of their own ([Query.Due]), since there is an index of
// due times. The reads in table order then leave these rows out: a million rows that are scheduled for next week cost
// neither kind of read anything.
func (t *Table) ReadsDue() bool { return t.mapping.dueIndex }

// Exact reports whether [Row.Writer] is the top-level transaction that inserted the row.
func (t *Table) Exact() bool { return t.mapping.Txid.Has() }

// KeyIndexed reports whether an index leads to the pending rows of a key ([Table.Keys]).
func (t *Table) KeyIndexed() bool { return t.mapping.keyIndex }

// Keys reads the first pending rows of some keys, up to 500, in one statement. Most bounds the page; each key has a
// limit of its own, too. It uses an index by key where there is one ([Table.KeyIndexed]) and otherwise passes once over
// the pending rows. With Due it reads rows with available_at, where they have a read of their own.
func (t *Table) Keys(ctx context.Context, q Query) (Page, error) {
	of := make(map[uint64]int, len(q.Asks))
	for i, a := range q.Asks {
		of[a.Hash] = i
	}
	value := func(oid uint32, of func(Ask) []byte) []byte { return array(oid, each(q.Asks, of)) }
	r := t.keys
	if q.Due {
		r = t.dueKeys
	}
	r.parameters = parameters{
		number(int64(q.Rows)), value(pgtype.Int8OID, func(a Ask) []byte { return number(int64(a.Hash)) }), nil,
		value(pgtype.Int4OID, func(a Ask) []byte {
			return binary.BigEndian.AppendUint32(nil, uint32(min(a.Limit, q.Rows)))
		}),
	}
	if t.numbered() && !q.Due {
		_, oid := t.ordinalType()
		r.parameters.add(value(oid, func(a Ask) []byte {
			if a.From == nil {
				return number(math.MinInt64) // before all others; as a time it is -infinity
			}
			return number(*a.From)
		}))
	}
	page, err := t.ask(ctx, r, q.Most)
	if err != nil {
		return page, err
	}
	page.Keys = make([]KeyRows, len(q.Asks))
	for _, row := range page.Rows {
		k := &page.Keys[of[row.Hash]]
		k.Rows = append(k.Rows, row)
	}
	page.Rows = nil
	for i := range page.Keys {
		k := &page.Keys[i]
		k.All = !page.Full && len(k.Rows) < min(q.Asks[i].Limit, q.Rows)
	}
	return page, nil
}

// fewRows is the initial capacity of a page.
const fewRows = 16

// ask makes a read. The contents of rows that are too large to come with the page are read afterwards, by their ids.
func (t *Table) ask(ctx context.Context, r read, m Most) (a Page, err error) {
	a, err = t.askOnce(ctx, r, m, t.each(min(max(m.Bytes/int64(max(m.Rows, 1)), leastInPage), mostInPage)))
	if unreadable(err) { // a single row cannot be written as text: each body is read separately
		a, err = t.askOnce(ctx, r, m, t.each(shortText))
	}
	if err != nil || a.Wants > 0 {
		return a, err
	}
	var missing []*Row
	for i := range a.Rows {
		if a.Rows[i].size > 0 {
			missing = append(missing, &a.Rows[i])
		}
	}
	err = t.contents(ctx, missing)
	// The page ends at a row that is no longer pending, or has moved meanwhile.
	if i := slices.IndexFunc(a.Rows, func(r Row) bool { return r.size > 0 }); i >= 0 {
		a.Rows, a.Full = a.Rows[:i], true
	}
	return a, err
}

// partsOfRow is by how much a part that comes with the page is smaller than the limit for a row, so that the sum of all
// parts stays below it.
const partsOfRow = 16

// each returns the largest size at which a row of a page is sent with the page, if a size is wanted.
func (t *Table) each(wanted int64) int64 { return max(min(wanted, t.maxRow/partsOfRow), 1) }

// askOnce sends a read. Rows of more than most bytes come without their contents, which are still to be read.
func (t *Table) askOnce(ctx context.Context, r read, m Most, most int64) (a Page, err error) {
	r.parameters[2] = number(most)
	if r.bare {
		r.parameters[2], most, m.Bytes = number(shortText), maxText, math.MaxInt64
	}
	var memory arena
	var server time.Duration
	altered, taken, bytes := false, 0, int64(0)
	took, err := t.run(ctx, limits{inOrder: r.inOrder}, []request{
		{statement: r.statement, parameters: r.parameters, results: t.formats},
	}, func(result *pgconn.ResultReader) {
		altered = t.altered(result.FieldDescriptions())
		for !altered && result.NextRow() {
			values := result.Values()
			if values[atSnapshot] != nil {
				a.Visible.parse(values)
				server = time.Duration(ordinal(values[atTook])) * time.Microsecond
				a.Next = time.Duration(ordinal(values[atNext])) * time.Microsecond // null is 0
				continue
			}
			if taken++; a.Full {
				continue // the server sends the rest anyway, which is not much
			}
			// Most pages have a few rows, and one in flight keeps the memory of all.
			if n := len(a.Rows); n == cap(a.Rows) {
				a.Rows = slices.Grow(a.Rows, max(3*n, fewRows))
			}
			a.Rows = append(a.Rows, Row{})
			row := &a.Rows[len(a.Rows)-1]
			t.decode(row, values, most, &memory)
			size := int64(row.Message.Size())
			if row.size > 0 && !t.refuses(row) {
				size = row.size
			}
			if bytes+size > m.Bytes && (len(a.Rows) > 1 || size > m.First) {
				if a.Rows, a.Full = a.Rows[:len(a.Rows)-1], true; len(a.Rows) == 0 {
					a.Wants = size
				}
				continue
			}
			bytes += size
		}
	})
	if altered {
		err = errors.Join(errAltered, err)
	}
	if err != nil {
		return Page{}, fmt.Errorf("read rows: %w", err)
	}
	for i := range a.Rows {
		a.Rows[i].Writer = a.Visible.widen(uint32(a.Rows[i].Writer))
	}
	a.Full, a.Distance = a.Full || taken == m.Rows, max(took-server, 0)
	return a, nil
}

// contents reads large rows whole, in one statement, or in several if one of the rows makes that fail. A row that is no
// longer pending, is now in another place of the order, or has another key, keeps its size.
func (t *Table) contents(ctx context.Context, rows []*Row) error {
	if len(rows) == 0 {
		return nil
	}
	missing := byIdentity(rows)
	err := t.readByID(ctx, each(rows, (*Row).ID), func(row *Row) {
		r := missing[row.Identity()]
		if r == nil || r.size == 0 || r.Position != row.Position || r.Hash != row.Hash && !row.Delayed {
			return
		}
		row.After, row.Hash = r.After, r.Hash
		*r = *row
	})
	switch half := len(rows) / 2; {
	case !unreadable(err):
		return err
	case half == 0:
		rows[0].refuse(publisher.PermanentError("row unreadable", "the database cannot give the row out: %w", err))
		return nil
	default:
		if err := t.contents(ctx, rows[:half]); err != nil {
			return err
		}
		return t.contents(ctx, rows[half:])
	}
}

// readByID reads pending rows whole by their ids. A row that is larger than the limit for all rows comes as refused.
func (t *Table) readByID(ctx context.Context, ids []string, found func(*Row)) error {
	m := Most{Rows: 2 * len(ids), Bytes: math.MaxInt64}
	r := t.byID.of(t, &Query{Most: m})
	r.parameters[1] = array(t.idOID, ids)
	page, err := t.askOnce(ctx, r, m, t.maxRow)
	for i := range page.Rows {
		row := &page.Rows[i]
		if size := int64(row.Message.Size()); size > t.maxRow {
			row.size = size
			t.refuses(row)
		}
		found(row)
	}
	return err
}
