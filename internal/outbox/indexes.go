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
func (m *mapping) chooseIndexes(r *relation) {
	pending := []string{m.Pending, m.Taken}
	dueFiltered, filtered := false, func(i *index) bool { return m.Taken == pattern.Always || i.holds(m.Taken) }
	if m.Available.Has() {
		timed, untimed := m.Available.Name+" is not null", m.Available.Name+" is null"
		for _, i := range r.Indexes {
			if alone := !m.Relayed.Has() || m.delete || i.holds(m.Relayed.Name+" is null"); alone &&
				i.starts(m.Available.Plain) && i.usableFor(append(pending, timed)...) {
				m.dueIndex, dueFiltered = true, dueFiltered || filtered(i)
			}
			m.undelayed = m.undelayed || i.holds(untimed) && i.usableFor(append(pending, untimed)...)
		}
		if m.dueIndex {
			pending = append(pending, untimed)
		}
	}
	orderFirst, rankFirst := false, false
	m.filtered, m.failedToo = m.Taken == pattern.Always, m.Failed.Has()
	for _, i := range r.Indexes {
		m.IDIndexed = m.IDIndexed || i.starts(m.ID.Plain) && i.usableFor()
		if !i.usableFor(pending...) {
			m.failedIndex = m.failedIndex || m.Failed.Has() && i.usableFor(m.Failed.Name+" is not null")
			continue
		}
		partial := m.partial(i)
		alone := partial || !m.Relayed.Has()
		rankFirst = rankFirst || alone && m.Rank.Has() && i.startsWith(rank(m))
		m.keyIndex = m.keyIndex || alone && i.startsWith(m.keyHash())
		switch {
		case m.Failed.Has() && i.starts(m.Failed.Plain) && !partial:
			m.failedIndex = true
		case alone && i.starts(m.Order.Plain):
			m.pendingIndex, orderFirst = true, true
			m.filtered = m.filtered || filtered(i)
		case m.Relayed.Has() && i.starts(m.Relayed.Plain, m.Order.Plain):
			m.pendingIndex, m.relayedFirst = true, true
			m.failedToo = m.failedToo && len(i.conjuncts) == 0
		case m.Relayed.Has() && (partial || i.starts(m.Relayed.Plain)):
			m.pendingIndex = true
			m.filtered = m.filtered || filtered(i)
		}
	}
	m.followed = rankFirst || !m.Rank.Has() && (orderFirst || m.relayedFirst)
	m.relayedFirst = m.relayedFirst && !orderFirst
	m.filtered = m.filtered && (dueFiltered || !m.dueIndex)
}

// partial reports whether an index leaves out rows that are done. An index of what has failed or been relayed at the
// origin keeps the rows that are done here.
func (m *mapping) partial(i *index) bool {
	if m.origin == nil {
		return len(i.conjuncts) > 0
	}
	return i.holds(m.Relayed.Name + " is null")
}
