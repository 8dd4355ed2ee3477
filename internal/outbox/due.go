package outbox

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// Where there is an index of due times, rows with available_at have a read of their own. The reads in table order then
// leave these rows out: a million rows that are scheduled for next week cost neither kind of read anything.

// indexDue looks for an index of due times: an index of pending rows only, by available_at.
func (m *mapping) indexDue(r *relation) {
	if m.available == nil {
		return
	}
	_, pending := m.pending()
	taken := r.normal[m.filter]
	conditions := slices.Concat(pending, taken, notNull(m.available))
	for _, i := range r.indexes {
		alone := m.relayed == nil || m.delete || slices.ContainsFunc(isNullPrinted(m.relayed),
			func(c string) bool { return slices.Contains(i.conjuncts, c) })
		if alone && i.starts(m.available.Plain) && i.usableFor(conditions...) {
			m.dueIndex = true
			m.dueFiltered = m.dueFiltered || m.filter == pattern.Always || i.holds(taken)
		}
	}
}

// notNull and isNullPrinted are these conditions on a column, as PostgreSQL prints them in an index's predicate.
func notNull(c *Column) []string {
	return []string{c.Name + " IS NOT NULL", c.Plain + " IS NOT NULL"}
}

func isNullPrinted(c *Column) []string {
	return []string{c.Name + " IS NULL", c.Plain + " IS NULL"}
}

// orderedPrinted is the condition for the view's rows that are read in table order, in the parts that PostgreSQL prints
// in an index's predicate.
func (m *mapping) orderedPrinted(r *relation) []string {
	_, printed := m.pending()
	printed = append(printed, r.normal[m.filter]...)
	if m.dueIndex {
		printed = append(printed, isNullPrinted(m.available)...)
	}
	return printed
}

// ReadsDue reports whether rows with available_at have a read of their own ([TailQuery.Due]).
func (t *Table) ReadsDue() bool { return t.mapping.dueIndex }

// dueNames adds the names that the statements about due times need, and the condition for a destination's rows.
func (t *Table) dueNames(names description, filtered string) {
	m := t.mapping
	if !m.dueIndex {
		return
	}
	available := m.available.Name
	names["available"], names["available_now"] = available, now(m.available)
	pending, _ := m.pending()
	pending = t.relation.partitionMark() + pending
	names["delayed"] = pending + " and " + available + " is not null" + filtered
	names["upcoming"] = pending + " and " + available + " > " + now(m.available)
	names["arrived"] = pending + " and " + available + " <= " + now(m.available) + filtered
	names["due_position"] = m.duePosition().columns()
}

// prepareDue renders the statements that cover all pending rows of a table with an index of due times. They have one
// condition for rows without available_at, named "due", and another one for the other rows. With a single condition for
// both, the planner could not use the two indexes.
func (t *Table) prepareDue(d description) {
	m := t.mapping
	t.nextDue = d.text("next_due.sql")
	t.drainEnd, t.drainLeft = d.text("drain_end_due.sql"), d.text("drain_left_due.sql")
	if m.pendingIndex {
		t.sampleTopics = d.text("sample_topics_due.sql")
	}
}

func untilDue(value []byte) time.Duration {
	if value == nil {
		return 0
	}
	return time.Duration(min(int64(binary.BigEndian.Uint64(value)), longest)) * time.Microsecond
}
