package outbox

import (
	"fmt"
	"strings"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Names are what statements about the rows of a view are made of: its columns, and conditions on its rows in SQL. They are for those who
// look at rows and change them at a person's request; what relays has statements of its own.
type Names struct {
	Table                                        string // quoted, with its schema
	ID, Order, Topic, Inserted, Available, Txid  Column
	Relayed, Failed, Attempt, LastError, Updated Column
	Key                                          string // an expression of type text
	Shard                                        string // an expression of type integer
	Payload, Headers                             string // expressions of type text, for people
	IDType                                       string // of the elements of an array of ids
	Taken                                        string // rows that the view takes, in whatever state
	// those of them that have failed or been relayed at the origin; empty where rows are taken as they are inserted
	Came string
	// rows in the view's state columns that are neither relayed nor failed, whoever takes them
	Pending                                                         string
	Ordering                                                        string // table order, in words that let the index of pending rows be used
	Identity, IdentityType, Here                                    string // what no two rows have in common; see [Table.Names]
	Indexes                                                         []Index
	since                                                           Column
	PendingIndexed, FailedIndexed, IDIndexed, UniqueID, Partitioned bool
}

// A Column is a column of the table. The zero Column is one that the table lacks.
type Column struct {
	Name     string // quoted
	Plain    string // not quoted
	Type     string // as SQL writes it
	Default  string // an SQL expression, empty without one
	Writable bool   // this role may update it
	NotNull  bool
	Width    int // in characters, 0 for no limit
	zoneless bool
}

// Has reports whether the table has the column.
func (c Column) Has() bool { return c.Name != "" }

// Time is the value of a column of times as a timestamptz. Columns without a time zone hold UTC. Times that are infinite or beyond the
// years of RFC 3339 are the nearest within: PostgreSQL subtracts no infinite time, and JSON has no such year.
func (c Column) Time() string {
	if !c.Has() {
		return "null::timestamptz"
	}
	at := c.Name
	if c.zoneless {
		at = "(" + at + " at time zone 'UTC')"
	}
	const first, last = "timestamptz '0001-01-02 00:00:00+00'", "timestamptz '9999-12-30 00:00:00+00'"
	return fmt.Sprintf("(case when %[1]s < %[2]s then %[2]s when %[1]s > %[3]s then %[3]s else %[1]s end)", at, first, last)
}

// At is a timestamptz expression as a value of a column of times. A comparison with it can use the column's index.
func (c Column) At(expression string) string {
	if c.zoneless {
		return "((" + expression + ")::timestamptz at time zone 'UTC')"
	}
	return "(" + expression + ")::timestamptz"
}

// Or is the column's name, or another expression if the table lacks it.
func (c Column) Or(absent string) string {
	if !c.Has() {
		return absent
	}
	return c.Name
}

// An Index is a valid b-tree index of the table.
type Index struct {
	Columns    []string // key columns as they are named in the catalogue; an expression is ""
	Conditions []string // what its predicate asks for, as the catalogue prints it
}

// Names returns what statements about the view's rows are made of. A row is told from all others by Identity; Here is what has to stand
// before "identity = any ($1)" so that the rows are found quickly, and is empty where ids are unique.
func (t *Table) Names() Names {
	m := t.mapping
	state, _ := m.pending()
	n := Names{Table: t.name.Quoted(), ID: columnOf(m.id), Order: columnOf(m.order), Topic: columnOf(m.topic), Inserted: columnOf(m.inserted),
		Available: columnOf(m.available), Txid: columnOf(m.txid), Relayed: columnOf(m.relayed), Failed: columnOf(m.failed),
		Attempt:   columnOf(m.attempt),
		LastError: columnOf(m.lastError), Updated: columnOf(m.updated), Key: m.key, Shard: m.shard(), Pending: state,
		Taken: m.filter, Ordering: t.ordering(), PendingIndexed: m.pendingIndex, FailedIndexed: m.failedIndex,
		IDIndexed: m.idIndex, UniqueID: !m.apart}
	n.IDType = map[uint32]string{oidUUID: "uuid", oidInt2: "smallint", oidInt4: "integer", oidInt8: "bigint", oidText: "text"}[t.idOID]
	n.Identity, n.IdentityType, n.Here = m.identity("", n.IDType)
	n.Payload, n.Headers = m.payload.shown(), m.headers.shown()
	for _, i := range t.relation.indexes {
		n.Indexes = append(n.Indexes, Index{Columns: i.columns, Conditions: i.conjuncts})
	}
	n.Partitioned = t.relation.kind == "p"
	n.since = columnOf(m.since())
	if m.origin != nil {
		n.Came = n.Order.Name + " is not null"
		if c := m.origin.without; c != nil {
			n.Came += " and " + sql.Quote(c.name) + " is null"
		}
	}
	return n
}

func columnOf(c *column) Column {
	if c == nil {
		return Column{}
	}
	return Column{Name: sql.Quote(c.name), Plain: c.name, Type: c.typ, Default: strings.TrimSpace(c.defaultSQL), Writable: c.canUpdate,
		NotNull: c.notNull,
		Width:   c.width, zoneless: c.oid == oidTimestamp}
}

// HereOf is Here for rows whose identities, as text, a query returns.
func (n Names) HereOf(query string) string {
	return strings.ReplaceAll(n.Here, "unnest($1::text[]) i", "("+query+") found (i)")
}

// DueAt is the time since which a row could be relayed, a timestamptz; null where the table does not say.
func (n Names) DueAt() string {
	if !n.Available.Has() {
		return n.since.Time()
	}
	return "greatest(" + n.since.Time() + ", " + n.Available.Time() + ")"
}

// Arrived is the condition that a row is not scheduled for later, to be added to others.
func (n Names) Arrived() string {
	if !n.Available.Has() {
		return ""
	}
	return " and (" + n.Available.Name + " is null or " + n.Available.Name + " <= " + n.Available.At("now()") + ")"
}

// Scheduled is the condition that a row is scheduled for later, to be added to others.
func (n Names) Scheduled() string {
	if !n.Available.Has() {
		return " and false"
	}
	return " and " + n.Available.Name + " > " + n.Available.At("now()")
}

// IsFailed is the condition of rows that were given up, and neither retried nor discarded since; empty where the table keeps none.
func (n Names) IsFailed() string {
	switch {
	case !n.Failed.Has():
		return ""
	case !n.Relayed.Has():
		return n.Failed.Name + " is not null"
	default:
		return n.Failed.Name + " is not null and " + n.Relayed.Name + " is null"
	}
}

// Now is the time of the statement as a value of a column of times.
func (c Column) Now() string { return c.At("now()") }

// shown is a column as text for people.
func (c *column) shown() string {
	if c == nil {
		return "null::text"
	}
	return sql.Quote(c.name) + "::text"
}
