package outbox

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// A State of rows that are counted. Its text is the name of the count in reports.
type State string

// The states in which rows wait or have ended. Rows that were relayed are not counted: no index makes that cheap.
const (
	Due       State = "due"
	Scheduled State = "scheduled" // available_at is still to come
	Failed    State = "failed"    // and neither retried nor discarded since
)

const (
	// CountCap is where counting stops.
	CountCap = 10_001
	// dividedCap is where counting stops if rows of several destinations are mixed. One destination with a backlog then
	// does not hide the rows of another one before that one has ten times what is counted of it.
	dividedCap = 10 * CountCap
)

// NotCounted is the number in [Takers] for a row that is looked at and not counted.
const NotCounted = -2

// Takers say by whom rows are taken, so that one statement counts the rows of all destinations with the same columns.
type Takers struct {
	SQL        string // the number of the row's destination; may have parameters
	Parameters []any  // texts, lists of texts and times
	// Divided says that destinations share the rows, so that no index holds only the rows of one of them.
	Divided bool
}

// A Tally counts the rows in each state. A state is missing if no index makes counting cheap, or if the server did not
// answer in time; a state without lines has no row.
type Tally map[State]*Tallied

// Tallied are the rows in one state.
type Tallied struct {
	Lines []Line
	Full  bool // as many rows were looked at as are looked at at most, so that there may be more
}

// A Line counts the rows of one topic that one destination takes.
type Line struct {
	Topic      string // empty for NULL
	Taker      int
	Rows       int64
	Retrying   int64    // those of the rows that were refused before
	OldestSeen *float64 // seconds for which the oldest of them has been due; nil if the table does not tell
}

// Tally counts rows in one round trip. It looks at a bounded number of rows in each state, along an index, so that it
// costs the same at ten rows and at ten million. A state costs more only if the index holds many rows in another state:
// of a few due rows behind many scheduled ones without an index of due times. With an error it returns the states that
// were counted before.
func (t *Table) Tally(ctx context.Context, takers Takers) (Tally, error) {
	var parameters pgx.ExtendedQueryBuilder
	if err := parameters.Build(pgtype.NewMap(), nil, takers.Parameters); err != nil { // in text form, as for no type
		return nil, fmt.Errorf("encode parameter: %w", err)
	}
	tally, looks, limit := Tally{}, t.looks(takers), takers.limit()
	if t.PendingIndexed() && !t.mapping.Available.Has() {
		tally[Scheduled] = &Tallied{}
	}
	if !t.mapping.Failed.Has() {
		tally[Failed] = &Tallied{}
	}
	if len(looks) == 0 {
		return tally, nil
	}
	results, err := t.send(ctx, limits{inOrder: true}, each(looks, func(l look) request {
		return request{statement: l.statement, parameters: parameters.ParamValues, text: true}
	})...)
	for i, result := range results {
		state, looked := looks[i].state, 0
		counted := cmp.Or(tally[state], &Tallied{})
		tally[state] = counted
		for _, row := range result.Rows {
			l := Line{Topic: string(row[0]), Taker: int(ordinal(row[1]))}
			l.Rows, l.Retrying = ordinal(row[2]), ordinal(row[3])
			if row[4] != nil {
				// A writer's clock may be ahead.
				l.OldestSeen = new(max(math.Float64frombits(binary.BigEndian.Uint64(row[4])), 0))
			}
			if looked += int(l.Rows); l.Taker != NotCounted {
				counted.Lines = append(counted.Lines, l)
			}
		}
		counted.Full = counted.Full || looked == limit
	}
	if err != nil {
		return tally, fmt.Errorf("count rows: %w", err)
	}
	return tally, nil
}

// limit is where counting stops.
func (t Takers) limit() int {
	if t.Divided {
		return dividedCap
	}
	return CountCap
}

// A look is one walk along an index.
type look struct {
	state     State
	statement string
}

// looks returns the walks that count rows. Those that can take long come last: the states before them are then known.
func (t *Table) looks(takers Takers) (looks []look) {
	m, dueAt := t.mapping, "null::timestamptz"
	if m.since().Has() {
		dueAt = m.dueAt(Column.zoned)
	}
	d := t.description.with("limit", strconv.Itoa(takers.limit()), "topic", m.Topic.Name, "due_at", dueAt,
		"retried", m.LastError.Or("null")+" is not null")
	add := func(state State, where, order, taker string) {
		if takers.Divided { // the filter would not bound the walk
			where = strings.TrimSuffix(where, d["filtered"])
		}
		looks = append(looks, look{state, d.text("count.sql", "state", where, "ordering", order, "taker", taker)})
	}
	pending, byTime := t.PendingIndexed(), "order by "+d["ordering"]
	if pending {
		add(Due, d["due"], byTime, takers.SQL)
		if m.dueIndex { // rows with available_at are in an index of their own
			byTime = "order by " + d["available"]
			add(Due, d["arrived"], byTime, takers.SQL)
		}
	}
	if t.FailedIndexed() {
		taker := takers.SQL
		if m.Relayed.Has() { // a discarded row that was kept has both times
			taker = fmt.Sprintf("case when %s is null then %s else %d end", m.Relayed.Name, taker, NotCounted)
		}
		add(Failed, m.Failed.Name+" is not null"+d["filtered"], "", taker)
	}
	if pending && m.Available.Has() {
		add(Scheduled, d["scheduled"], byTime, takers.SQL)
	}
	return looks
}

// PendingIndexed reports whether an index makes it cheap to count pending rows. An index of a destination's own columns
// without its filter does not: it keeps all rows that the destination never takes.
func (t *Table) PendingIndexed() bool {
	return t.mapping.pendingIndex && (t.view.Columns == nil || t.mapping.filtered)
}

// FailedIndexed reports whether an index makes it cheap to count failed rows.
func (t *Table) FailedIndexed() bool { return t.mapping.failedIndex }

// Oldest returns for how many seconds the oldest of a destination's first due rows has been due: 0 without such rows,
// nil if that is not known.
func (c *Tallied) Oldest(taker int) (oldest *float64) {
	if c == nil {
		return nil
	}
	some := c.Full
	for _, l := range c.Lines {
		mine := l.Taker == taker
		some = some || mine
		if mine && l.OldestSeen != nil && (oldest == nil || *oldest < *l.OldestSeen) {
			oldest = l.OldestSeen
		}
	}
	if !some {
		return new(float64)
	}
	return oldest
}
