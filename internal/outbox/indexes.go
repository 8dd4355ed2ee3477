package outbox

import (
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// index is a valid b-tree index.
type index struct {
	Columns   []string // key columns; an expression begins with expressionMark
	Predicate string   // the predicate as the server prints it
	Unique    bool
	conjuncts []string // the predicate's parts; see [conjuncts]
}

// expressionMark begins an expression among an index's columns.
const expressionMark = "="

// allAmong reports whether all of some parts are among others.
func allAmong(parts, others []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !slices.Contains(others, part) })
}

// usableFor reports whether a scan for rows that meet all the given conditions can use the index: its predicate must
// have no other condition.
func (i *index) usableFor(conditions ...string) bool {
	return allAmong(i.conjuncts, conjuncts(conditions...))
}

// holds reports whether the index's predicate has a condition.
func (i *index) holds(condition string) bool { return allAmong(conjuncts(condition), i.conjuncts) }

// conjuncts splits conditions, as the server or the relay writes them, at their ands, in a form in which both write
// alike what [pattern.SQL] makes. Conditions that differ in parentheses, casts or case are mistaken for one another
// only when a read is chosen and advice is given, never in what is read.
func conjuncts(conditions ...string) (parts []string) {
	flat := strings.NewReplacer("(", "", ")", "", `"`, "", `\`, "", "::text", "", "::character varying", "",
		" like e'", " ~~ '", " like ", " ~~ ", " in (e'", " = '", " in ", " = ",
		" = any (array[", " = ", "]", "", " e'", " '")
	for _, condition := range conditions {
		if condition != "" {
			parts = append(parts, strings.Split(flat.Replace(strings.ToLower(condition)), " and ")...)
		}
	}
	return parts
}

// starts reports whether the index begins with these columns.
func (i *index) starts(columns ...string) bool {
	return len(i.Columns) >= len(columns) && slices.Equal(i.Columns[:len(columns)], columns)
}

// startsWith reports whether the index begins with an expression, as far as its text shows: the server writes casts and
// parentheses of its own.
func (i *index) startsWith(expression string) bool {
	written := strings.NewReplacer("::text", "", "::bigint", "", "(", "", ")", "", " ", "", `"`, "")
	bare := func(text string) string { return strings.ToLower(written.Replace(text)) }
	printed, ok := strings.CutPrefix(i.Columns[0], expressionMark)
	return ok && bare(printed) == bare(expression)
}

// uniqueWith returns the columns that are unique together with an id, none if the id alone is unique across all
// partitions. If no index says so, or if a value of such a column has several text forms, they are the row's place. An
// index says nothing about tables that inherit from an ordinary table.
func (r *relation) uniqueWith(id Column) (beside []Column) {
	beside = places
	for _, i := range r.Indexes {
		if r.Children && !r.partitioned() || !i.Unique || !i.usableFor() || !slices.Contains(i.Columns, id.Plain) {
			continue
		}
		fits, others := true, []Column(nil)
		for _, name := range i.Columns {
			c := r.columns[name]
			if fits = fits && c.Has() && c.NotNull && (c == id || slices.Contains(plainTypes, c.OID)); c != id {
				others = append(others, c)
			}
		}
		switch {
		case fits && others == nil:
			return nil
		case fits && beside[0] == places[0]:
			beside = others
		}
	}
	return beside
}

// served says which reads an index makes cheap.
type served struct {
	pendingIndex, failedIndex bool
	IDIndexed                 bool // all rows by id
	keyIndex                  bool // pending rows by [mapping.keyHash]
	followed                  bool // pending rows in their order, which is that of priorities if there are some
	relayedFirst              bool // the index of pending rows begins with relayed_at
	failedToo                 bool // and holds failed rows
	filtered                  bool // the indexes of pending rows hold no rows that the view does not take
	// dueIndex says that there is an index of pending rows with available_at, by that time. These rows then have a read
	// of their own.
	dueIndex  bool
	undelayed bool // pending rows without available_at
}

// chooseIndexes finds the reads that an index makes cheap.
func (m *mapping) chooseIndexes() {
	unmarked, pending := m.Relayed.Name+" is null", []string{m.Pending, m.Taken}
	some := func(where []string, fits func(*index) bool) bool {
		return slices.ContainsFunc(m.relation.Indexes, func(i *index) bool { return i.usableFor(where...) && fits(i) })
	}
	// What follows is asked of indexes that can be used for pending rows: whether they leave out those that are done,
	// and those that the view does not take. Where rows are deleted, an index of all rows may hold rows that were
	// marked before.
	alone := func(i *index) bool {
		return !m.Relayed.Has() || i.holds(unmarked) || m.delete && len(i.conjuncts) > 0
	}
	own := func(i *index) bool { return m.Taken == pattern.Always || i.holds(m.Taken) }

	m.IDIndexed = some(nil, func(i *index) bool { return i.starts(m.ID.Plain) })
	m.failedIndex = m.Failed.Has() && some([]string{m.Failed.Name + " is not null"}, func(i *index) bool {
		return len(i.conjuncts) > 0 || i.starts(m.Failed.Plain)
	})
	dueOwn := true
	if m.Available.Has() {
		timed := []string{m.Pending, m.Taken, m.Available.Name + " is not null"}
		untimed := []string{m.Pending, m.Taken, m.Available.Name + " is null"}
		due := func(i *index) bool { return (m.delete || alone(i)) && i.starts(m.Available.Plain) }
		m.undelayed = some(untimed, func(i *index) bool { return i.holds(untimed[2]) })
		if m.dueIndex = some(timed, due); m.dueIndex {
			dueOwn, pending = some(timed, func(i *index) bool { return due(i) && own(i) }), untimed
		}
	}
	inOrder := func(i *index) bool { return alone(i) && i.starts(m.Order.Plain) }
	byMark := func(i *index) bool { return i.starts(m.Relayed.Plain, m.Order.Plain) }
	few := func(i *index) bool { return i.holds(unmarked) || i.starts(m.Relayed.Plain) || inOrder(i) }
	m.pendingIndex = some(pending, few)
	m.filtered = dueOwn && some(pending, func(i *index) bool { return few(i) && own(i) })
	m.keyIndex = some(pending, func(i *index) bool { return alone(i) && i.startsWith(m.keyHash()) })
	m.relayedFirst = some(pending, byMark) && !some(pending, inOrder)
	m.failedToo = m.Failed.Has() && !some(pending, func(i *index) bool { return byMark(i) && len(i.conjuncts) > 0 })
	m.followed = m.relayedFirst || some(pending, inOrder)
	if m.Rank.Has() {
		m.followed = some(pending, func(i *index) bool { return alone(i) && i.startsWith(rank(m)) })
	}
}

// CreateIndex returns the statement that creates an index of the rows that meet a condition. One on a partitioned table
// cannot be created concurrently.
func (m *mapping) CreateIndex(columns, where string) string {
	how := "create index concurrently on "
	if m.relation.partitioned() {
		how = "create index on "
	}
	if where == pattern.Always {
		return how + m.relation.table.Quoted() + " (" + columns + ");"
	}
	return how + m.relation.table.Quoted() + " (" + columns + ") where " + where + ";"
}

// CreateFailedIndex returns the statement that creates an index of the failed rows.
func (m *mapping) CreateFailedIndex() string {
	return m.CreateIndex(m.Failed.Name+", "+m.ID.Name, m.Failed.Name+" is not null")
}
