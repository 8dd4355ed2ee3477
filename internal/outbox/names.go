package outbox

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// Names are the parts of statements about a view's rows: its columns, and SQL conditions on its rows. They are for
// commands that examine and change rows at an operator's request; relaying has statements of its own.
type Names struct {
	*mapping
	Table    string // quoted, with its schema
	Encoding string // the database's
	// Came is the condition for those of the view's rows that have failed or been relayed at the origin; empty if rows
	// are taken as they are inserted.
	Came string
	// Pending is the condition for rows that are neither relayed nor failed by the view's state columns, including rows
	// of other destinations.
	Pending string
	// IsFailed is the condition for rows that have failed and were neither retried nor discarded since; empty if the
	// table keeps no failures.
	IsFailed string
	// Unsent are assignments that empty the columns of a failed row's dead letters.
	Unsent      []string
	Partitioned bool
	indexes     []*index
	parts       description
}

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
	Comment  string
}

// Has reports whether the table has the column.
func (c Column) Has() bool { return c.Name != "" }

// text is the column's value as text.
func (c Column) text() string { return c.Name + "::text" }

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

// Indexed reports whether an index begins with a column, and holds all rows in which the column has a value. If every
// is true, it holds the others, too.
func (n Names) Indexed(c Column, every bool) bool {
	return slices.ContainsFunc(n.indexes, func(i *index) bool {
		return i.starts(c.Plain) && (i.usableFor() || !every && i.usableFor(c.Name+" is not null"))
	})
}

// Names returns the parts of statements about the view's rows.
func (t *Table) Names() Names {
	m := t.mapping
	state := m.pending()
	n := Names{
		mapping: m, Table: t.Quoted(), Encoding: t.relation.Encoding, Pending: state, IsFailed: m.isFailed(),
		Partitioned: t.relation.Kind == "p", indexes: t.relation.Indexes,
	}
	for _, l := range t.letters() {
		if l.column.Writable {
			n.Unsent = append(n.Unsent, l.column.Name+" = "+l.empty)
		}
	}
	if m.origin != nil {
		n.Came = n.Order.Name + " is not null"
		if c := m.origin.without; c.Has() {
			n.Came += " and " + c.Name + " is null"
		}
	}
	// A command may change a row at the origin and at this destination, one after the other, so the time of the failure
	// or of the relaying there is not part of the row's identity.
	alone := *m
	alone.origin = nil
	identity, typ, here := alone.identity("", t.idType())
	n.parts = t.description.with(
		"identity", identity, "identity_type", typ, "here", here, "topic", n.Topic.Name, "order_type", n.Order.Type,
		"inserted_at", n.Inserted.Time(), "relayed_at", n.Relayed.Name, "relayed_time", n.Relayed.Time(),
		"failed_at", n.Failed.Name, "failed_time", n.Failed.Time(), "attempt", n.Attempt.Or("null"),
		"last_error", n.LastError.Or("null"), "due_at", m.dueAt(Column.Time),
		"payload", m.Payload.shown(), "headers", m.Headers.shown())
	return n
}

// Text renders a statement, with further values given as alternating names and values. {identity} distinguishes a row
// from all others; {here} has to stand before "{identity} = any ($1)" so that the rows are found quickly, and is empty
// if ids are unique.
func (n Names) Text(file string, pairs ...string) string { return n.parts.text(file, pairs...) }

// IDType is the type of the elements of an array of ids.
func (n Names) IDType() string { return n.parts["id_type"] }

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
func (n Names) Ordered() string {
	if !n.Available.Has() {
		return ""
	}
	return " and " + n.Available.Name + " is null"
}

// Scheduled is the condition that a row is scheduled for later, to be added to others.
func (n Names) Scheduled() string {
	if !n.Available.Has() {
		return " and false"
	}
	return " and " + n.Available.Name + " > " + n.Available.At("now()")
}

// Now is the time of the statement as a value of a column of times.
func (c Column) Now() string { return c.At("now()") }

// shown is a column as text for display.
func (c Column) shown() string { return c.Or("null") + "::text" }
