package outbox

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// A Column is a column of the table. The zero Column is a column that the table lacks.
type Column struct {
	Name     string // quoted
	Plain    string // unquoted
	Type     string // the type as SQL writes it
	Default  string // an SQL expression, empty if there is none
	Writable bool   // this role may update it
	NotNull  bool
	Width    int    // the largest length in characters, 0 for no limit
	OID      uint32 // the base type's
	Cache    int64  // how many values each session reserves at a time from the column's sequence; 1 without one
	Comment  string
}

// Has reports whether the table has the column.
func (c Column) Has() bool { return c.Name != "" }

// text is the column's value as text, null if the table lacks the column.
func (c Column) text() string { return c.Or("null") + "::text" }

// isText reports whether the column stores text as it is read.
func (c Column) isText() bool { return c.OID == pgtype.TextOID || c.OID == pgtype.VarcharOID }

// Time returns the value of a column of times as a timestamptz. Columns without a time zone hold UTC. Times that are
// infinite or outside the years of RFC 3339 become the nearest time within: PostgreSQL subtracts no infinite time, and
// JSON has no such year.
func (c Column) Time() string {
	if !c.Has() {
		return "null::timestamptz"
	}
	at := c.zoned()
	const first, last = "timestamptz '0001-01-02 00:00:00+00'", "timestamptz '9999-12-30 00:00:00+00'"
	return fmt.Sprintf("(case when %[1]s < %[2]s then %[2]s when %[1]s > %[3]s then %[3]s else %[1]s end)", at, first,
		last)
}

// zoned is Time with infinite and distant times as they are.
func (c Column) zoned() string {
	if c.OID == pgtype.TimestampOID {
		return "(" + c.Name + " at time zone 'UTC')"
	}
	return c.Name
}

// At returns a timestamptz expression as a value of a column of times. A comparison with it can use the column's index.
func (c Column) At(expression string) string {
	if c.OID == pgtype.TimestampOID {
		return "((" + expression + ")::timestamptz at time zone 'UTC')"
	}
	return "(" + expression + ")::timestamptz"
}

// Or returns the column's name, or another expression if the table lacks the column.
func (c Column) Or(absent string) string {
	if !c.Has() {
		return absent
	}
	return c.Name
}

// Indexed reports whether an index begins with a column, and holds all rows in which the column has a value.
func (t *Table) Indexed(c Column) bool {
	return c.Has() && slices.ContainsFunc(t.relation.Indexes, func(i *index) bool {
		return i.starts(c.Plain) && i.usableFor(c.Name+" is not null")
	})
}

// Unsent returns the assignments that empty the columns of a failed row's dead letters.
func (t *Table) Unsent() []string {
	return t.unsent("%s = %s", func(c Column) bool { return c.Writable })
}

// Text renders a statement for a command that examines or changes rows at an operator's request, with further values
// given as alternating names and values. {row} distinguishes a row from all others; {row_here} has to stand before
// "{row} = any ($1)" so that the rows are found quickly.
func (t *Table) Text(file string, pairs ...string) string { return t.description.text(file, pairs...) }

// dueAt is the time since which a row could be relayed, a timestamptz in one of the forms of a column; null if the
// table does not hold it.
func (m *mapping) dueAt(form func(Column) string) string {
	since := form(m.since())
	if !m.Available.Has() {
		return since
	}
	return "greatest(" + since + ", " + form(m.Available) + ")"
}

// Ordered is the condition that a row keeps the order of its key, to be added to others. A row with available_at keeps
// none, whether or not that time has come.
func (m *mapping) Ordered() string {
	if !m.Available.Has() {
		return ""
	}
	return " and " + m.Available.Name + " is null"
}

// Scheduled is the condition that a row is scheduled for later, to be added to others.
func (m *mapping) Scheduled() string {
	if !m.Available.Has() {
		return " and false"
	}
	return " and " + m.Available.Name + " > " + m.Available.At("now()")
}

// Now is the time of the statement as a value of a column of times.
func (c Column) Now() string { return c.At("now()") }
