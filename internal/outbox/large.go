package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// refuses reports whether a row is larger than the limit for all rows, and if so makes it invalid.
func (t *Table) refuses(row *Row) bool {
	switch {
	case row.size <= t.maxRow:
		return false
	case row.long && t.maxRow > maxText:
		row.refuse(publisher.PermanentError("text too long",
			"the topic, the key, a header's column or a value that a template names has %d bytes or more: shorten it, or leave it out",
			maxText))
		return true
	}
	row.refuse(publisher.PermanentError("row too large",
		"the row takes at least %d bytes, and %s is %d: raise this limit, or store the data elsewhere and send its location",
		row.size, t.config.Names.Of("MaxRowBytes"), t.maxRow))
	return true
}

// refuse makes a row invalid and drops its size, so that its contents are not read.
func (r *Row) refuse(err error) {
	r.Invalid, r.size = err, 0
	r.Message.Payload, r.Message.Headers = nil, nil
}

// complete reads the contents of the page's large rows: together, or one by one if reading them together fails because of one
// row. It leaves out rows that are no longer pending. Rows that are [Row.Beyond] need only their keys, since the next tail scan
// reads them again.
func (t *Table) complete(ctx context.Context, q *Query, page *Page) error {
	missing, left := map[string]*Row{}, int64(0)
	for i := range page.Rows {
		switch r := &page.Rows[i]; {
		case r.size > 0 && r.Beyond && !r.cutKey:
			left += r.size
			r.size = 0
		case r.size > 0:
			missing[r.Identity()] = r
		}
	}
	if len(missing) == 0 {
		return nil
	}
	ids := make([]string, 0, len(missing))
	for _, r := range missing {
		ids = append(ids, r.ID())
	}
	err := t.readLarge(ctx, q, ids, missing)
	if unreadable(err) {
		err = t.readOneByOne(ctx, q, missing)
	}
	if err != nil {
		return err
	}
	page.Rows = slices.DeleteFunc(page.Rows, func(r Row) bool { return r.size > 0 })
	page.Bytes, page.Beyond = left, 0
	for i := range page.Rows {
		page.Bytes += int64(page.Rows[i].Message.Size())
		if page.Rows[i].Beyond {
			page.Beyond++
		}
	}
	return nil
}

// readOneByOne reads each row whole, and makes those invalid that cannot be read.
func (t *Table) readOneByOne(ctx context.Context, q *Query, missing map[string]*Row) error {
	for _, r := range missing {
		if r.size == 0 {
			continue
		}
		switch err := t.readLarge(ctx, q, []string{r.ID()}, missing); {
		case unreadable(err):
			r.refuse(publisher.PermanentError("row unreadable", "the database cannot give the row out: %w", err))
		case err != nil:
			return err
		}
	}
	return nil
}

// readLarge reads rows whole. A row that was changed after its page was read is left to the next tail scan, with all rows after it.
func (t *Table) readLarge(ctx context.Context, q *Query, ids []string, missing map[string]*Row) error {
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	p := t.begin(ctx, conn.Conn(), limits{})
	p.add(t.readWhole, [][]byte{number(int64(2 * len(ids))), array(t.idOID, ids), number(t.maxRow)}, binaryFormats(3), t.formats())
	p.send(ctx)
	p.line()
	result := p.next()
	if result != nil && t.altered(result.FieldDescriptions(), true) {
		return fmt.Errorf("read large rows: %w", errors.Join(errAltered, p.results.Close()))
	}
	for result != nil && result.NextRow() {
		var row Row
		t.decode(&row, result.Values(), t.maxRow, &arena{})
		r := missing[row.Identity()]
		if r == nil || r.Position != row.Position || r.size == 0 { // another row with that id, or the row has moved
			continue
		}
		row.Beyond = r.Beyond || row.writer != r.writer && q.IDs == nil
		if size := int64(row.Message.Size()); size > t.maxRow {
			row.size = size
		}
		if row.size > 0 { // the row is larger than it seemed
			row.size = max(row.size, t.maxRow+1)
			t.refuses(&row)
		}
		*r = row
	}
	if err := p.results.Close(); err != nil {
		return fmt.Errorf("read large rows: %w", p.failed(ctx, err))
	}
	return nil
}

// unreadable reports whether an error is due to a single row that cannot be read: its text takes more than a gigabyte, say, or
// its stored data is damaged.
func unreadable(err error) bool {
	const limitExceeded, outOfMemory, internalError = "54", "53200", "XX"
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(e.Code, limitExceeded) || e.Code == outOfMemory || strings.HasPrefix(e.Code, internalError))
}
