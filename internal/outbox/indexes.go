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
		if condition != "" && condition != pattern.Always {
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

// uniqueWith returns the columns that distinguish rows with one id, none if ids are unique across all partitions: what
// a unique index holds beside the id, unless a value of such a column has several text forms, or else the order value
// and the part of the table: sequences of several parts may give the same ids in one transaction, and thus at one time.
// An index says nothing about tables that inherit from an ordinary table.
func (m *mapping) uniqueWith() []Column {
	r, beside := m.relation, []Column{m.Order, {Name: "tableoid"}}
	unfit := func(c Column) bool { return !c.NotNull || !slices.Contains(plainTypes, c.OID) }
	for _, i := range r.Indexes {
		columns := each(i.Columns, func(name string) Column { return r.columns[name] })
		others := slices.DeleteFunc(slices.Clone(columns), func(c Column) bool { return c == m.ID })
		switch {
		case r.Children && !r.partitioned(), !i.Unique, !i.usableFor(), !m.ID.NotNull,
			len(others) == len(columns), slices.ContainsFunc(others, unfit):
		case len(others) == 0:
			return nil
		default:
			beside = others
		}
	}
	return beside
}

// served says which reads an index makes cheap.
type served struct {
	failedIndex  bool
	keyIndex     bool // pending rows by [mapping.keyHash]
	followed     bool // pending rows in their order, which is that of priorities if there are some
	relayedFirst bool // the index of pending rows begins with relayed_at
	lean         bool // it holds no rows over which reads step, except those of destinations with the same columns
	// dueIndex says that there is an index of pending rows with available_at, by that time. These rows then have a read
	// of their own.
	dueIndex bool
}

// chooseIndexes finds the reads that an index makes cheap.
func (m *mapping) chooseIndexes() {
	pending, taken := []string{m.Pending, m.Taken}, pattern.Always
	if m.view.Columns != nil { // destinations that share the table's columns share its indexes
		taken = m.Taken
	}
	some := func(where []string, fits func(*index) bool) bool {
		return slices.ContainsFunc(m.relation.Indexes, func(i *index) bool { return i.usableFor(where...) && fits(i) })
	}
	// What follows is asked of indexes that can be used for pending rows: whether they leave out those that are done.
	// Where rows are deleted, an index of all rows may hold rows that were marked before.
	alone := func(i *index) bool {
		return !m.Relayed.Has() || i.holds(m.Relayed.Name+" is null") || m.config.Delete && len(i.conjuncts) > 0
	}
	m.failedIndex = m.Failed.Has() && some([]string{m.Failed.Name + " is not null"}, func(i *index) bool {
		return len(i.conjuncts) > 0 || i.starts(m.Failed.Plain)
	})
	lean := taken
	if m.Available.Has() {
		timed, untimed := m.Available.Name+" is not null", m.Available.Name+" is null"
		m.dueIndex = some([]string{m.Pending, m.Taken, timed}, func(i *index) bool {
			return alone(i) && i.starts(m.Available.Plain) && i.holds(taken)
		})
		if m.dueIndex {
			pending, lean = append(pending, untimed), pattern.And(lean, untimed)
		}
	}
	m.keyIndex = some(pending, func(i *index) bool { return alone(i) && i.startsWith(m.keyHash()) })
	inOrder := func(i *index) bool { return alone(i) && i.starts(m.Order.Plain) }
	byMark := func(i *index) bool { return i.starts(m.Relayed.Plain, m.Order.Plain) }
	m.relayedFirst = some(pending, byMark) && !some(pending, inOrder)
	follows := func(i *index) bool { return inOrder(i) || byMark(i) }
	if m.Rank.Has() {
		follows = func(i *index) bool { return alone(i) && i.startsWith(rank(m)) }
	}
	m.followed = some(pending, follows)
	m.lean = some(pending, func(i *index) bool {
		return follows(i) && i.holds(lean) && (!m.Failed.Has() || len(i.conjuncts) > 0)
	})
}

// CreateIndex returns the statement that creates an index of the rows that meet a condition. One on a partitioned table
// cannot be created concurrently.
func (m *mapping) CreateIndex(columns, where string) string {
	how := "concurrently "
	if m.relation.partitioned() {
		how = ""
	}
	create := "create index " + how + "on " + m.relation.table.Quoted() + " (" + columns + ")"
	if where != pattern.Always {
		create += " where " + where
	}
	return create + ";"
}

// CreateFailedIndex returns the statement that creates an index of the failed rows.
func (m *mapping) CreateFailedIndex() string {
	return m.CreateIndex(m.Failed.Name+", "+m.ID.Name, m.Failed.Name+" is not null")
}
