package outbox

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

// States are all of them, in the order of reports.
func States() []State { return []State{Due, Scheduled, Failed} }

const (
	// CountCap is where counting stops.
	CountCap = 10_001
	// dividedCap is where counting stops if rows of several destinations are mixed. One destination with a backlog then
	// does not hide the rows of another one before that one has ten times what is counted of it.
	dividedCap = 10 * CountCap
)

// A Backlog counts rows that are not relayed. A nil count was not taken: no index makes it cheap, or it took too long.
// The names of its JSON fields are stable.
type Backlog struct {
	Due       *int64 `json:"due"`       // neither relayed nor failed, and not scheduled for later
	Retrying  *int64 `json:"retrying"`  // the part of Due that was refused before
	Scheduled *int64 `json:"scheduled"` // available_at lies in the future
	Failed    *int64 `json:"failed"`    // failed, and neither retried nor discarded since
	// AtLeast names the counts that are lower bounds: counting stopped at [CountCap], or too many rows of other
	// destinations are in between.
	AtLeast []string `json:"at_least"`
	// OldestAgeSeconds is how long the oldest due row has been due, among the first in table order; 0 if there is none,
	// nil if not measured.
	OldestAgeSeconds *float64 `json:"oldest_age_seconds"`
	Topics           []Topic  `json:"topics"`      // by number of failed rows, then of due rows, the largest first
	MoreTopics       int      `json:"more_topics"` // number of topics left out of Topics
}

// A Topic is the part of one topic of a backlog, among the rows that were counted.
type Topic struct {
	Topic     string `json:"topic"` // empty for NULL
	Due       int64  `json:"due"`
	Retrying  int64  `json:"retrying"`
	Scheduled int64  `json:"scheduled"`
	Failed    int64  `json:"failed"`
	// OldestAgeSeconds is the age of the topic's oldest due row, null if there is none.
	OldestAgeSeconds *float64 `json:"oldest_age_seconds"`
}

// Count returns the count of rows in a state.
func (b *Backlog) Count(state State) *int64 {
	return map[State]*int64{Due: b.Due, Scheduled: b.Scheduled, Failed: b.Failed}[state]
}

// Gauge returns the count of rows in a state as a metric: at most [CountCap], and nil if it is not known, also because
// too many rows of other destinations are in the way.
func (b *Backlog) Gauge(state State) *int64 {
	n := b.Count(state)
	if n == nil || *n < CountCap && slices.Contains(b.AtLeast, string(state)) {
		return nil
	}
	return new(min(*n, CountCap))
}

// add adds the rows of a part of the topic.
func (t *Topic) add(part Topic) {
	t.Due, t.Retrying = t.Due+part.Due, t.Retrying+part.Retrying
	t.Scheduled, t.Failed = t.Scheduled+part.Scheduled, t.Failed+part.Failed
	if age := part.OldestAgeSeconds; t.OldestAgeSeconds == nil || age != nil && *age > *t.OldestAgeSeconds {
		t.OldestAgeSeconds = age
	}
}

// mostTopics is how many topics a backlog lists.
const mostTopics = 200

// backlogOf returns the backlog of some topics. looked has the states that were counted, with true if as many rows were
// looked at as are looked at at most, so that there may be more.
func backlogOf(topics map[string]*Topic, looked map[State]bool) Backlog {
	b, sum := Backlog{AtLeast: []string{}, Topics: []Topic{}}, Topic{}
	for _, t := range topics {
		sum.add(*t)
		b.Topics = append(b.Topics, *t)
	}
	slices.SortFunc(b.Topics, func(x, y Topic) int {
		return cmp.Or(cmp.Compare(y.Failed, x.Failed), cmp.Compare(y.Due, x.Due), cmp.Compare(y.Scheduled, x.Scheduled),
			cmp.Compare(x.Topic, y.Topic))
	})
	b.MoreTopics = max(len(b.Topics)-mostTopics, 0)
	b.Topics = b.Topics[:len(b.Topics)-b.MoreTopics]
	for _, state := range States() {
		full, known := looked[state]
		switch {
		case !known:
		case state == Scheduled:
			b.Scheduled = &sum.Scheduled
		case state == Failed:
			b.Failed = &sum.Failed
		default:
			b.Due, b.Retrying, b.OldestAgeSeconds = &sum.Due, &sum.Retrying, sum.OldestAgeSeconds
			if sum.Due == 0 && !full {
				b.OldestAgeSeconds = new(float64)
			}
		}
		if full {
			b.AtLeast = append(b.AtLeast, string(state))
		}
	}
	return b
}

// NotCounted is the number in [Takers] for a row that is looked at and not counted.
const NotCounted = -2

// Takers say by whom rows are taken, so that one statement counts the rows of all destinations with the same columns.
type Takers struct {
	SQL        string // the number of the row's destination; may have parameters
	Parameters []any  // texts, lists of texts and times
	// Divided says that destinations share the rows, so that no index holds only the rows of one of them.
	Divided bool
	Numbers []int // of which the rows are counted
}

// Tally counts rows in one round trip, by the numbers of those that take them. It looks at a bounded number of rows in
// each state, along an index, so that it costs the same at ten rows and at ten million. A state costs more only if the
// index holds many rows in another state: of a few due rows behind many scheduled ones without an index of due times.
// With an error the states that were counted before have counts.
func (t *Table) Tally(ctx context.Context, takers Takers) (map[int]Backlog, error) {
	var parameters pgx.ExtendedQueryBuilder
	if err := parameters.Build(pgtype.NewMap(), nil, takers.Parameters); err != nil { // in text form, as for no type
		return nil, fmt.Errorf("encode parameter: %w", err)
	}
	looked, looks, limit := map[State]bool{}, t.looks(takers), takers.limit()
	if t.PendingIndexed() && !t.mapping.Available.Has() {
		looked[Scheduled] = false
	}
	if !t.mapping.Failed.Has() {
		looked[Failed] = false
	}
	var results []*pgconn.Result
	var err error
	if len(looks) > 0 {
		results, err = t.send(ctx, limits{inOrder: true}, each(looks, func(l look) request {
			return request{statement: l.statement, parameters: parameters.ParamValues, text: true}
		})...)
	}
	topics := map[int]map[string]*Topic{}
	for _, number := range takers.Numbers {
		topics[number] = map[string]*Topic{}
	}
	for i, result := range results {
		state, rows := looks[i].state, int64(0)
		for _, row := range result.Rows {
			found := Topic{
				Topic: string(row[0]), Due: ordinal(row[2]), Retrying: ordinal(row[3]), Scheduled: ordinal(row[4]),
				Failed: ordinal(row[5]),
			}
			if row[6] != nil { // a writer's clock may be ahead
				found.OldestAgeSeconds = new(max(math.Float64frombits(binary.BigEndian.Uint64(row[6])), 0))
			}
			rows += found.Due + found.Scheduled + found.Failed
			if of := topics[int(ordinal(row[1]))]; of != nil {
				of[found.Topic] = cmp.Or(of[found.Topic], &Topic{Topic: found.Topic})
				of[found.Topic].add(found)
			}
		}
		looked[state] = looked[state] || rows == int64(limit)
	}
	backlogs := map[int]Backlog{}
	for number, of := range topics {
		backlogs[number] = backlogOf(of, looked)
	}
	if err != nil {
		err = fmt.Errorf("count rows: %w", err)
	}
	return backlogs, err
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
	d := t.description.with("limit", strconv.Itoa(takers.limit()), "due_at", dueAt)
	add := func(state State, where, order, taker string) {
		if takers.Divided { // the filter would not bound the walk
			where = strings.TrimSuffix(where, d["filtered"])
		}
		is := func(other State) string { return strconv.FormatBool(state == other) }
		looks = append(looks, look{state, d.text("count.sql", "state", where, "ordering", order, "taker", taker,
			"is_due", is(Due), "is_scheduled", is(Scheduled), "is_failed", is(Failed))})
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
	return t.mapping.followed && (t.view.Columns == nil || t.mapping.lean)
}

// FailedIndexed reports whether an index makes it cheap to count failed rows.
func (t *Table) FailedIndexed() bool { return t.mapping.failedIndex }
