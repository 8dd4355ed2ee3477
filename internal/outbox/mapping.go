package outbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// A mapping is the table as one destination sees it: which column plays which role, which rows are its own, in which
// order they are read, and which of the reads an index makes cheap. A role that the table lacks is the zero Column.
type mapping struct {
	relation *relation // the table as the catalogue describes it
	config   Config
	view     View // zero in what all destinations share
	// problems are what keeps the destination from using the table. With problems the mapping is incomplete, but has
	// the columns that are there.
	problems []*SetupError
	ignored  []string // columns with a name of the relay's whose type does not fit

	ID, Topic, Payload, Headers      Column
	Inserted, Available, Rank, Order Column
	Txid                             Column
	state
	Taken string // the SQL condition for the view's rows, in any state
	// Came is the condition for those of the view's rows that have failed or been relayed at the origin; empty if rows
	// are taken as they are inserted.
	Came string
	// Pending is the condition for rows that are neither relayed nor failed by the view's state columns, including rows
	// of other destinations.
	Pending string
	// IsFailed is the condition for rows that have failed and were neither retried nor discarded since; empty if the
	// table keeps no failures. In a row that was discarded and kept, relayed_at is set, too.
	IsFailed  string
	origin    *View         // destination whose failed or relayed rows these are, or nil
	without   Column        // a column of that destination which is null in these rows, if there is one
	Key       string        // an SQL expression of type text
	keySource string        // what the key is, for display
	extra     []string      // SQL expressions of type text
	lacking   []*SetupError // what is in the way of each extra text, or nil
	placed    []placed      // columns that are sent as headers
	served
	place  string   // an SQL expression: the row's physical place, null if it cannot be used to find the row
	beside []Column // what distinguishes rows with one id; empty if ids are known to be unique
}

// rowWriter is the system column with the transaction that wrote a row last.
const rowWriter = "xmin"

// writer is the expression for the transaction that inserted a row, or wrote it last if no column holds the former.
// When another destination writes into the row later, xmin changes, which must not make the row look like a late
// commit. A number that has not been assigned yet comes from another server, for example in rows that were restored
// from a dump.
func (m *mapping) writer() string {
	if !m.Txid.Has() {
		return rowWriter
	}
	return fmt.Sprintf("(case when %[1]s < (select pg_snapshot_xmax(pg_current_snapshot())) then %[1]s::xid else "+
		"%[2]s end)",
		m.Txid.Name, rowWriter)
}

// understand finds what the columns mean that all destinations share. Problems of templates are the problems of the
// destinations that use them.
func (r *relation) understand(config Config) *mapping {
	m := &mapping{relation: r, config: config, place: "ctid"}
	for _, role := range m.roles() {
		*role.column = m.column(role, View{})
	}
	m.Order = m.inOrder()
	m.beside = m.uniqueWith()
	m.findKey()
	for _, e := range config.Extra {
		n, text, lacking := len(m.problems), m.extraText(e), (*SetupError)(nil)
		if len(m.problems) > n {
			text, lacking, m.problems = noKey, m.problems[n], m.problems[:n]
		}
		m.extra, m.lacking = append(m.extra, text), append(m.lacking, lacking)
	}
	if !config.Looks {
		m.placeHeaders()
	}
	// Places repeat in each of the partitions if all are looked at.
	if r.partitioned() && r.parts == nil {
		m.place = noPlace
	}
	m.problems, m.ignored = slices.Clip(m.problems), slices.Clip(m.ignored) // destinations add to copies
	return m
}

// as returns the mapping of a destination.
func (m mapping) as(v View) *mapping {
	m.view, m.state = v, m.stateOf(v)
	for i, lacking := range m.lacking {
		if lacking != nil && (v.Extra == nil || slices.Contains(v.Extra, i)) {
			m.problems = append(m.problems, lacking)
		}
	}
	m.fromOrigin()
	m.conditions()
	m.Taken = m.config.takes(v, m.Topic)
	m.chooseIndexes()
	if !m.config.Looks {
		m.demands()
	}
	return &m
}

// demands checks what the settings of a destination need of the table.
func (m *mapping) demands() {
	v, table := m.view, m.relation.table
	m.checkDeletes()
	if setting := v.Names.Of("PayloadEncoding"); v.Encoded && m.Payload.Has() && !m.Payload.isText() {
		m.fail("remove "+setting+", or store the payload as text",
			"%s requires a payload of type text or varchar, and column %s of table %s has type %s",
			setting, m.Payload.Plain, table, m.Payload.Type)
	}
	if setting := v.Names.Of("MaxAge"); v.Expires && !(m.Failed.Has() && m.since().Has()) {
		m.fail("add the column, name another one for it, or remove "+setting,
			"table %s lacks failed_at or inserted_at, which %s needs", table, setting)
	}
	if setting := v.Names.Of("BlockFailed"); v.BlockFailed && m.Failed.Has() && m.Key != noKey && !m.failedIndex {
		m.fail(m.CreateFailedIndex()+" or remove "+setting,
			"%s reads the failed rows every second, but table %s has no index on them", setting, table)
	}
}

// identity returns the expression that distinguishes every row from all others, and its type. If ids are not known to
// be unique, the identity includes the columns that are unique together with the id. If no index says which are, it
// includes the order value: two rows with one id and one order value then count as one. The identity of a row that has
// failed or been relayed at another destination also includes the time of that event, so that nothing is written for a
// different event than the one that was read. here is the SQL that has to stand before "identity = any ($1)" for the
// rows to be found quickly. prefix stands before each column.
func (m *mapping) identity(prefix, idType string) (expression, typ, here string) {
	id := prefix + m.ID.Name
	var parts []string
	for _, c := range m.beside {
		parts = append(parts, word(prefix, c))
	}
	if m.origin != nil {
		parts = append(parts, word(prefix, m.Order))
	}
	if parts == nil {
		return id, idType, ""
	}
	ids, absent := fmt.Sprintf("regexp_replace(i, '^([^ ]* ){%d}', '')", len(parts)), ""
	if !m.ID.NotNull {
		ids, absent = "nullif("+ids+", '')", id+" is null or "
	}
	here = fmt.Sprintf("(%s%s = any (array(select %s::%s from unnest($1::text[]) i))) and ", absent, id, ids, idType)
	return "(" + strings.Join(append(parts, "coalesce("+id+"::text, '')"), " || ' ' || ") + ")", "text", here
}

// compound reports whether a row's identity is more than its id.
func (m *mapping) compound() bool { return len(m.beside) > 0 || m.origin != nil }

// word is a column's value as text without a blank.
func word(prefix string, c Column) string {
	return "coalesce(translate(" + prefix + c.Name + "::text, ' ', '_'), '')"
}

// shard is the expression for a row's shard. Every replica must compute the same value.
func (m *mapping) shard() string {
	if m.config.Shards <= 1 {
		return "0"
	}
	return fmt.Sprintf("(hashtext(coalesce(%s, %s::text)) & 2147483647) %% %d", m.Key, m.ID.Name, m.config.Shards)
}

// conditions makes the conditions for rows by their state.
func (m *mapping) conditions() {
	m.Pending = pattern.Always
	if m.origin != nil {
		m.Came = m.Order.Name + " is not null"
		if m.Pending = m.Came; m.without.Has() {
			m.Came += " and " + m.without.Name + " is null"
		}
	}
	for _, name := range m.nulls() {
		m.Pending = pattern.And(m.Pending, name+" is null")
	}
	if m.Failed.Has() {
		m.IsFailed = m.Failed.Name + " is not null"
		if m.Relayed.Has() {
			m.IsFailed += " and " + m.Relayed.Name + " is null"
		}
	}
}

// nulls returns the columns that are null in pending rows.
func (m *mapping) nulls() (names []string) {
	for _, c := range []Column{m.Relayed, m.Failed, m.without} {
		if c.Has() {
			names = append(names, c.Name)
		}
	}
	return names
}

// pendingByID is the pending condition for statements that give ids, phrased so that the rows are found by id.
func (m *mapping) pendingByID() string {
	nulls := m.nulls()
	switch {
	case len(nulls) == 0:
		return m.Pending
	case m.origin != nil:
		return isNull(nulls...) + " and num_nonnulls(" + m.Order.Name + ") = 1"
	}
	return isNull(nulls...)
}

// Describe says which columns are used for what.
func (m *mapping) Describe() string {
	var used []string
	for _, r := range m.found() {
		if c := *r.column; c.Has() {
			text := r.name + ": " + c.Plain + " " + c.Type
			if r.name == "order" && !c.NotNull {
				text += ", which may be NULL"
			}
			used = append(used, text)
		}
	}
	return strings.Join(append(used, "key: "+m.keySource), "; ")
}
