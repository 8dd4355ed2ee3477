package outbox

import (
	"context"
	"encoding/json"
	"fmt"
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

// mostTopics is how many topics a backlog lists.
const mostTopics = 200

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

// Tally counts rows in one statement, by the numbers of those that take them. It looks at a bounded number of rows in
// each state, along an index, so that it costs the same at ten rows and at ten million. A state costs more only if the
// index holds many rows in another state: of a few due rows behind many scheduled ones without an index of due times.
// With an error nothing is counted.
func (t *Table) Tally(ctx context.Context, takers Takers) (backlogs map[int]Backlog, err error) {
	looks, counted := t.looks(takers)
	var results []*pgconn.Result
	if len(looks) > 0 {
		var parameters pgx.ExtendedQueryBuilder
		if err := parameters.Build(pgtype.NewMap(), nil, takers.Parameters); err != nil { // as text, as for no type
			return nil, fmt.Errorf("encode parameter: %w", err)
		}
		results, err = t.send(ctx, limits{inOrder: true}, request{
			statement:  t.description.text("count.sql", "looks", strings.Join(looks, "\nunion all\n")),
			parameters: parameters.ParamValues, text: true,
		})
	}
	if err != nil {
		counted, err = nil, fmt.Errorf("count rows: %w", err)
	}
	sums, topics, looked := map[int]Topic{}, map[int][]Topic{}, map[State]int64{}
	for _, result := range results {
		for _, row := range result.Rows {
			taker, whole, found := int(ordinal(row[0])), row[1][0] != 0, Topic{}
			if err := json.Unmarshal(row[2], &found); err != nil {
				return nil, fmt.Errorf("count rows: %w", err)
			}
			if !whole {
				topics[taker] = append(topics[taker], found)
				continue
			}
			sums[taker] = found
			looked[Due] += found.Due
			looked[Scheduled] += found.Scheduled
			looked[Failed] += found.Failed
		}
	}
	backlogs = map[int]Backlog{}
	for _, number := range takers.Numbers {
		sum, all := sums[number], topics[number]
		listed := min(len(all), mostTopics)
		b := Backlog{AtLeast: []string{}, Topics: append([]Topic{}, all[:listed]...), MoreTopics: len(all) - listed}
		for _, state := range counted {
			full := looked[state] >= int64(takers.limit())
			if full {
				b.AtLeast = append(b.AtLeast, string(state))
			}
			switch state {
			case Due:
				b.Due, b.Retrying, b.OldestAgeSeconds = &sum.Due, &sum.Retrying, sum.OldestAgeSeconds
				if sum.Due == 0 && !full {
					b.OldestAgeSeconds = new(float64)
				}
			case Scheduled:
				b.Scheduled = &sum.Scheduled
			case Failed:
				b.Failed = &sum.Failed
			}
		}
		backlogs[number] = b
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

// looks returns walks along indexes, which count rows, and the states that are known with them.
func (t *Table) looks(takers Takers) (looks []string, counted []State) {
	m, dueAt := t.mapping, "null::timestamptz"
	if m.since().Has() {
		dueAt = m.dueAt(Column.zoned)
	}
	d := t.description.with("limit", strconv.Itoa(takers.limit()), "due_at", dueAt)
	add := func(state State, where, order, taker string) {
		if takers.Divided { // the filter would not bound the walk
			where = strings.TrimSuffix(where, d["filtered"])
		}
		looks = append(looks, d.text("count_look.sql", "state", string(state), "rows", where, "ordering", order,
			"taker", taker))
	}
	if t.PendingIndexed() {
		byTime := "order by " + d["ordering"]
		add(Due, d["due"], byTime, takers.SQL)
		if m.dueIndex { // rows with available_at are in an index of their own
			byTime = "order by " + d["available"]
			add(Due, d["arrived"], byTime, takers.SQL)
		}
		if m.Available.Has() {
			add(Scheduled, d["scheduled"], byTime, takers.SQL)
		}
		counted = []State{Due, Scheduled}
	}
	if t.FailedIndexed() {
		taker := takers.SQL
		if m.Relayed.Has() { // a discarded row that was kept has both times
			taker = fmt.Sprintf("case when %s is null then %s else %d end", m.Relayed.Name, taker, NotCounted)
		}
		add(Failed, m.Failed.Name+" is not null"+d["filtered"], "", taker)
	}
	if t.FailedIndexed() || !m.Failed.Has() {
		counted = append(counted, Failed)
	}
	return looks, counted
}

// PendingIndexed reports whether an index makes it cheap to count pending rows. An index of a destination's own columns
// without its filter does not: it keeps all rows that the destination never takes.
func (t *Table) PendingIndexed() bool {
	return t.mapping.followed && (t.view.Columns == nil || t.mapping.lean)
}

// FailedIndexed reports whether an index makes it cheap to count failed rows.
func (t *Table) FailedIndexed() bool { return t.mapping.failedIndex }
