package outbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Columns that stand before those of [Table.columns] in what the engine asks. The first five are null in all rows but
// one, and all others in that one.
const (
	atSnapshot = iota
	atAge
	atNow
	atTook
	atNext
	atAfter
	atHash
	atVersion
	atColumns
)

// fewRows is the initial capacity of a page.
const fewRows = 16

// firstNormal is the least number of a transaction; smaller ones have special meanings.
const firstNormal = 3

// ask sends a statement that reads rows. Its third parameter is the bytes of a row that come with the page, and is
// filled in here. Of rows that are larger the contents are read afterwards, by their ids.
func (t *Table) ask(ctx context.Context, l limits, statement string, parameters [][]byte, m Most) (
	a Page, err error,
) {
	for _, apart := range []bool{false, true} {
		each := t.each(m, apart)
		parameters[2] = number(each)
		if a, err = t.askOnce(ctx, l, statement, parameters, m, each); !unreadable(err) {
			break
		} // a single row cannot be written as text: each body is read separately
	}
	if err == nil && a.Wants == 0 {
		err = t.contents(ctx, &a)
	}
	return a, err
}

// partsOfRow is by how much a part that comes with the page is smaller than the limit for a row, so that the sum of all
// parts stays below it.
const partsOfRow = 16

// each returns the largest size at which a row of a page is sent with the page.
func (t *Table) each(m Most, apart bool) int64 {
	each := min(max(m.Bytes/int64(max(m.Rows, 1)), leastInPage), mostInPage)
	if apart {
		each = shortText
	}
	return max(min(each, t.maxRow/partsOfRow), 1)
}

func (t *Table) askOnce(
	ctx context.Context, l limits, statement string, parameters [][]byte, m Most, each int64,
) (a Page, err error) {
	var memory arena
	taken, bytes := 0, int64(0)
	var server time.Duration
	took, err := t.stream(ctx, l, statement, parameters, func(values [][]byte) {
		if values[atSnapshot] != nil {
			a.Visible.parse(values)
			server = time.Duration(ordinal(values[atTook])) * time.Microsecond
			a.Next = time.Duration(min(ordinal(values[atNext]), longest)) * time.Microsecond // null is 0
			return
		}
		if taken++; a.Full {
			return // the server sends the rest anyway, which is not much
		}
		if n := len(a.Rows); n == cap(a.Rows) { // most pages have a few rows, and one in flight keeps the memory of all
			a.Rows = slices.Grow(a.Rows, max(3*n, fewRows))
		}
		a.Rows = append(a.Rows, Row{})
		row := &a.Rows[len(a.Rows)-1]
		t.decode(row, values, each, &memory)
		size := int64(row.Message.Size())
		if row.size > 0 && !t.refuses(row) {
			size = row.size
		}
		if bytes+size > m.Bytes && (len(a.Rows) > 1 || size > m.First) {
			if a.Rows, a.Full = a.Rows[:len(a.Rows)-1], true; len(a.Rows) == 0 {
				a.Wants = size
			}
			return
		}
		bytes += size
	})
	if err != nil {
		return Page{}, err
	}
	for i := range a.Rows {
		a.Rows[i].Writer = a.Visible.widen(a.Rows[i].writer)
	}
	a.Full, a.Distance = a.Full || taken == m.Rows, max(took-server, 0)
	return a, nil
}

// contents reads the contents of the large rows of an answer: together, or one by one if reading them together fails
// because of one row. It cuts the answer at a row that is no longer pending, or has moved meanwhile.
func (t *Table) contents(ctx context.Context, a *Page) error {
	var missing []*Row
	for i := range a.Rows {
		if a.Rows[i].size > 0 {
			missing = append(missing, &a.Rows[i])
		}
	}
	if len(missing) == 0 {
		return nil
	}
	err := t.readContents(ctx, missing, &a.Visible)
	if unreadable(err) {
		err = nil
		for _, r := range missing {
			if r.size == 0 {
				continue
			}
			if failed := t.readContents(ctx, []*Row{r}, &a.Visible); unreadable(failed) {
				r.refuse(publisher.PermanentError("row unreadable", "the database cannot give the row out: %w", failed))
			} else if failed != nil {
				return failed
			}
		}
	}
	if i := slices.IndexFunc(a.Rows, func(r Row) bool { return r.size > 0 }); i >= 0 {
		a.Rows, a.Full = a.Rows[:i], true
	}
	return err
}

// readContents reads rows whole, in one statement. A row that is no longer pending, is now in another place of the
// order, or has another key, keeps its size.
func (t *Table) readContents(ctx context.Context, rows []*Row, visible *Visible) error {
	missing := byIdentity(rows)
	return t.readByID(ctx, each(rows, (*Row).ID), func(row *Row) {
		r := missing[row.Identity()]
		if r == nil || r.size == 0 || r.Position != row.Position || r.Hash != row.Hash && !row.Delayed {
			return
		}
		row.After, row.Hash, row.Writer = r.After, r.Hash, visible.widen(row.writer)
		*r = *row
	})
}

// readByID reads pending rows whole by their ids. A row that is larger than the limit for all rows comes as refused.
func (t *Table) readByID(ctx context.Context, ids []string, found func(*Row)) error {
	parameters := [][]byte{number(int64(2 * len(ids))), array(t.idOID, ids), number(t.maxRow)}
	_, err := t.stream(ctx, limits{}, t.byID, parameters, func(values [][]byte) {
		var row Row
		t.decode(&row, values, t.maxRow, &arena{})
		if size := int64(row.Message.Size()); size > t.maxRow {
			row.size = size
		}
		if row.size > 0 { // the row is larger than it seemed
			row.size = max(row.size, t.maxRow+1)
			t.refuses(&row)
		}
		found(&row)
	})
	return err
}

// stream sends a statement that reads rows. It passes on the values of each, which are valid during the call, and
// returns how long it has waited for them.
func (t *Table) stream(
	ctx context.Context, l limits, statement string, parameters [][]byte, each func(values [][]byte),
) (took time.Duration, err error) {
	altered := false
	r := request{statement: statement, parameters: parameters}
	r.results = slices.Concat(binaryFormats(atColumns), t.formats())
	took, err = t.run(ctx, l, []request{r}, func(result *pgconn.ResultReader) {
		altered = t.altered(result.FieldDescriptions()[atColumns:])
		for !altered && result.NextRow() {
			each(result.Values())
		}
	})
	if altered {
		err = errors.Join(errAltered, err)
	}
	if err != nil {
		return 0, fmt.Errorf("read rows: %w", err)
	}
	return took, nil
}

// parse reads the first row of an answer. A snapshot is sent as the number of running transactions, the oldest, the
// next, and the running ones.
func (v *Visible) parse(values [][]byte) {
	snapshot, be := values[atSnapshot], binary.BigEndian
	v.Oldest, v.Next = be.Uint64(snapshot[4:]), be.Uint64(snapshot[12:])
	for running := snapshot[20:]; len(running) > 0; running = running[8:] {
		v.Running = append(v.Running, be.Uint64(running))
	}
	next := firstNormal + uint32(ordinal(values[atAge])) // the distance from the first number to the next one
	v.Unassigned = v.Next + uint64(next-uint32(v.Next))
	v.Now = time.UnixMicro(ordinal(values[atNow])).UTC()
}

// widen adds the epoch to a transaction's number of 32 bits, which is lower than the next one.
func (v *Visible) widen(n uint32) uint64 {
	back := uint64(uint32(v.Unassigned) - n)
	if n < firstNormal || back > v.Unassigned {
		return uint64(n) // before all others
	}
	return v.Unassigned - back
}

// binary is the snapshot as PostgreSQL sends a pg_snapshot.
func (v *Visible) binary() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(v.Running)))
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, v.Oldest), v.Next)
	for _, running := range v.Running {
		b = binary.BigEndian.AppendUint64(b, running)
	}
	return b
}
