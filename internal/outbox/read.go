package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

var (
	errNullTopic = errors.New("the row has no topic: the topic column is NULL")
	errNullID    = errors.New("the row has no id: the id column is NULL")
)

// A Query says which pending rows to read. At most one of Recent, Keys and IDs is set; without any of them the rows after After
// are read.
type Query struct {
	After  Position // exclusive
	Recent *int64   // from this ordinal on, or earlier; only for tables with ordinals
	Keys   []string // the rows of these keys; with After only where [Table.KeyIndexed] or [Table.KeyFiltered]
	From   *int64   // lower bound of the ordinals
	IDs    []string

	// NullKey adds the rows without a key to those of Keys, which may be none; only with After and where [Table.KeyFiltered].
	NullKey bool

	// Upto ends the read before this ordinal; only for tables with ordinals.
	Upto *int64

	// Since is the [Page.Snapshot] of an earlier page, and everything that was visible then has been read. The writes of transactions
	// before Since.Oldest are left out. If no transaction has ended since then, no row is looked at: a session that inserts many rows,
	// and rows that wait, then cost nothing. Only with Recent or in reads from the very beginning, and only if the writers are known. It
	// has no effect on tables whose rows may become due later than they were written.
	Since *Snapshot

	// Horizon asks for [Page.Horizon]. Within ends the read at a horizon, and says which rows were written later
	// ([Row.Beyond]); only for tables with ordinals.
	Horizon bool
	Within  *Horizon

	// Ended asks for [Page.Ended].
	Ended bool

	// Due reads the rows with available_at whose time has come, by that time, where they have a read of their own
	// ([Table.ReadsDue]). After continues such a read. All other reads except those by IDs leave rows with available_at out.
	Due bool

	// Back leaves out rows that became due longer ago, with Due, or that failed longer ago ([Table.Failed]), unless it is 0.
	Back time.Duration

	// Unranked reads in table order whatever the rows' priorities, only where [Table.OrderIndexed].
	Unranked bool

	// Shards are the shards to read from, nil for all. Keys without NullKey and IDs are read whatever their shard.
	Shards []int

	// Glance asks only for [Page.More], whether any row of the shards is due, and for [Page.Next].
	Glance bool

	Limit int   // the largest number of rows
	Bytes int64 // stop taking rows after this many bytes of messages
	First int64 // the limit for the first row, if larger than Bytes

	apart bool // nearly all bodies are left out of the page
}

// A Page is the answer to a Query, in table order.
type Page struct {
	Rows  []Row
	End   Position // the position after which the next page begins; set if More
	More  bool     // there may be further rows
	Bytes int64    // size of the messages, whether they are read or left to the next tail scan

	Now      time.Time // by the database's clock, a little before the rows were read
	Snapshot Snapshot  // just before the rows were read
	Ended    Snapshot  // just after Snapshot, if the query asked for it or has Within; otherwise the same
	Horizon  *Horizon  // taken at the same time, if the query asked for it
	Beyond   int       // the number of rows that are [Row.Beyond]

	// Next is the time until the next row of any shard or destination becomes due, for Query.Due or Glance; 0 if there is none.
	Next time.Duration

	// Distance is how long a request to the database and its answer are on the way, whatever the server does for it.
	Distance time.Duration

	// Wants is the size of the first row if it is larger than the bytes to be read, so that no row was read. Nothing else is
	// set then.
	Wants int64
}

// Read reads pending rows that are due. It locks nothing. Large rows are read one by one after the others of their page; those
// that were settled meanwhile are left out.
func (t *Table) Read(ctx context.Context, q Query) (Page, error) {
	if q.Glance {
		return t.glance(ctx, q.Shards)
	}
	page, err := t.page(ctx, q)
	if unreadable(err) {
		q.apart = true // a single row cannot be written as text: each body is read separately
		page, err = t.page(ctx, q)
	}
	if err == nil {
		err = t.complete(ctx, &q, &page)
	}
	return page, err
}

// readNow returns the time that comes with the limits of a pipeline.
func readNow(texts []string) time.Time {
	const at = 2
	if len(texts) <= at {
		return time.Time{}
	}
	micros, err := strconv.ParseInt(texts[at], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// glance asks whether any row is due. It is planned each time: the table may have been empty at the time of an earlier plan.
func (t *Table) glance(ctx context.Context, shards []int) (Page, error) {
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return Page{}, fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	statement, parameters := t.all.glance, [][]byte(nil)
	if shards != nil {
		statement, parameters = t.some.glance, [][]byte{shardArray(shards)}
	}
	result := conn.Conn().PgConn().ExecParams(ctx, statement, parameters, nil, binaryFormats(len(parameters)), []int16{1})
	var page Page
	for result.NextRow() {
		page = t.glanced(result.Values())
	}
	if _, err := result.Close(); err != nil {
		return Page{}, fmt.Errorf("look whether there are rows: %w", t.explain(err))
	}
	return page, nil
}

// page reads a page without the contents of its large rows.
func (t *Table) page(ctx context.Context, q Query) (Page, error) {
	statement, parameters, formats := t.statement(q)
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return Page{}, fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	distance, err := t.distance.measure(ctx, conn.Conn())
	if err != nil {
		return Page{}, err
	}
	p := t.begin(ctx, conn.Conn(), limits{inOrder: t.inOrder(q), seen: true})
	if q.Horizon {
		p.add(t.horizon, nil, nil, []int16{1})
	}
	if q.Due {
		p.add(t.nextDue, nil, nil, []int16{1})
	}
	p.add(statement, parameters, formats, t.formats())
	ended := q.Ended || q.Within != nil
	if ended {
		p.add(t.snapshot, nil, nil, nil)
	}
	p.send(ctx)
	page := Page{Distance: distance}
	if texts := p.line(); texts != nil {
		if err := page.Snapshot.parse(texts...); err != nil {
			return Page{}, errors.Join(err, p.results.Close())
		}
		page.Now = readNow(texts)
	}
	result := p.next()
	if q.Horizon && result != nil {
		page.Horizon = &Horizon{Snapshot: page.Snapshot}
		page.Horizon.Highest, err = readHighest(result)
		if result = p.next(); err != nil || result == nil {
			return Page{}, fmt.Errorf("find the last pending row: %w", p.failed(ctx, errors.Join(err, p.results.Close())))
		}
	}
	if q.Due && result != nil {
		page.Next = readNext(result)
		if result = p.next(); result == nil {
			return Page{}, fmt.Errorf("find the next row that becomes due: %w", p.failed(ctx, p.results.Close()))
		}
	}
	if result != nil && t.altered(result.FieldDescriptions(), false) {
		return Page{}, fmt.Errorf("read rows: %w", errors.Join(errAltered, p.results.Close()))
	}
	var a arena
	var writers []uint32 // transactions that wrote the rows, if they matter
	taken, over, full, upto, most := 0, false, false, q.upto(), t.inPage(q)
	for result != nil && result.NextRow() {
		taken++
		if over {
			continue
		}
		if full = full || page.Bytes >= q.Bytes && len(page.Rows) > 0; full {
			continue // the server sends the rest anyway, which is not much
		}
		if len(page.Rows) == fewRows { // an idle relay's reads find no row or a few
			page.Rows = slices.Grow(page.Rows, max(0, min(q.Limit, 1000)-fewRows))
		}
		page.Rows = append(page.Rows, Row{})
		row := &page.Rows[len(page.Rows)-1]
		t.decode(row, result.Values(), most, &a)
		over = !row.Position.Unordered() && row.Position.Ordinal > upto
		if over {
			page.Rows = page.Rows[:len(page.Rows)-1]
			continue
		}
		size := int64(row.Message.Size())
		if row.size > 0 && !t.refuses(row) {
			size = row.size
		}
		if row.size > 0 && page.Bytes+size > q.Bytes && (page.Bytes > 0 || size > q.First) {
			if page.Rows = page.Rows[:len(page.Rows)-1]; len(page.Rows) == 0 {
				page.Wants = size
			}
			full = true
			continue
		}
		page.End = row.Position
		if q.Within != nil {
			writers = append(writers, row.writer)
		}
		page.Bytes += size
	}
	page.Ended = page.Snapshot
	if ended && result != nil {
		if texts := p.line(); texts != nil {
			page.Ended = Snapshot{}
			err = page.Ended.parse(texts...)
		}
	}
	if err := errors.Join(err, p.results.Close()); err != nil {
		return Page{}, fmt.Errorf("read rows: %w", p.failed(ctx, err))
	}
	q.LeaveOut(&page, writers)
	if page.Wants > 0 {
		return Page{Wants: page.Wants}, nil
	}
	page.More = !over && (full || taken == q.Limit)
	if !page.More && !q.Due && statement == t.ordered(q).nulls && statement != "" {
		page.More, page.End = true, Position{order: afterNulls}
	}
	return page, nil
}

// LeaveOut marks the rows of a page that are [Row.Beyond]: their writers, given by number, had not committed when the query's
// horizon was taken, or that is uncertain. It also serves rows that do not come from PostgreSQL.
func (q *Query) LeaveOut(page *Page, writers []uint32) {
	if q.Within == nil {
		return
	}
	first, some := q.Within.FirstEnded(&page.Ended)
	for i, by := range writers {
		// Numbers from before the counter wrapped around look as if they came after all others.
		doubtful := some && !before(by, first) && before(by, q.Within.Next)
		if page.Rows[i].Beyond = doubtful || !q.Within.Sees(by); page.Rows[i].Beyond {
			page.Beyond++
		}
	}
}

// upto returns the last ordinal that may be read.
func (q *Query) upto() int64 {
	last := int64(math.MaxInt64)
	if q.Upto != nil {
		if *q.Upto == math.MinInt64 {
			return math.MinInt64
		}
		last = *q.Upto - 1
	}
	if q.Within == nil {
		return last
	}
	if q.Within.Highest == nil {
		return math.MinInt64
	}
	return min(last, *q.Within.Highest)
}

// fewRows is the initial capacity of a page, before it is known to be a full one.
const fewRows = 16
