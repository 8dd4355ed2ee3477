package outbox

import (
	"encoding/binary"
	"time"
)

// Where there is an index of due times, rows with available_at have a read of their own. The reads in table order then
// leave these rows out: a million rows that are scheduled for next week cost neither kind of read anything.

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
