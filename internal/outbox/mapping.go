package outbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// mapping says which column of the table plays which part. A part that the table lacks is the zero Column.
type mapping struct {
	ID, Topic, Payload, Headers         Column
	Attempt, Relayed, Failed, LastError Column
	Inserted, Updated, Available, Rank  Column
	Txid                                Column
	Order                               Column
	Taken                               string          // the SQL condition for the view's rows, in any state
	origin                              *upstream       // destination whose rows these are, or nil
	Key, topicText                      string          // SQL expressions of type text
	keySource                           string          // what the key is, for display
	extra                               []string        // SQL expressions of type text
	placed                              []placed        // columns that are sent as headers
	keyVaries                           bool            // the key's text depends on settings, so no index can hold it
	texts                               map[string]bool // expressions above that are columns of type text or varchar
	indistinct                          map[string]bool // expressions in extra that samples leave out
	ignored                             []string        // columns with a name of the relay's whose type does not fit
	served
	delete bool
	writer string   // an SQL expression: the transaction that inserted a row, or wrote it last
	place  string   // an SQL expression: the row's physical place, null if it cannot be used to find the row
	apart  bool     // ids are not known to be unique, so rows are distinguished by beside as well
	beside []Column // columns that distinguish rows; if there are none, rows are distinguished by their places
	shards int
}

var (
	idTypes      = slices.Concat([]uint32{pgtype.UUIDOID, pgtype.TextOID, pgtype.VarcharOID}, intTypes)
	payloadTypes = slices.Concat(jsonTypes, []uint32{pgtype.TextOID, pgtype.VarcharOID, pgtype.ByteaOID})
	textTypes    = []uint32{pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID}
	jsonTypes    = []uint32{pgtype.JSONBOID, pgtype.JSONOID}
	txidTypes    = []uint32{pgtype.XID8OID}
	timeTypes    = []uint32{pgtype.TimestampOID, pgtype.TimestamptzOID}
	intTypes     = []uint32{pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID}
	// plainTypes are types whose values have one text form each.
	plainTypes = slices.Concat([]uint32{pgtype.UUIDOID, pgtype.DateOID}, timeTypes, intTypes)
	// varying are types whose values are written as settings say.
	varying   = slices.Concat(timeTypes, []uint32{pgtype.ByteaOID, pgtype.DateOID, pgtype.IntervalOID, pgtype.JSONOID})
	unordered = []uint32{pgtype.JSONOID, pgtype.JSONBOID, pgtype.XMLOID, pgtype.BoolOID}
)

// A role is what a column may be for the relay.
type role struct {
	name     string
	column   *Column
	types    []uint32 // those that fit; nil for any, or for an order, which is found otherwise
	required bool
}

// roles are all roles.
func (m *mapping) roles() []role {
	return []role{
		{"id", &m.ID, idTypes, true},
		{"topic", &m.Topic, nil, true},
		{"payload", &m.Payload, payloadTypes, true},
		{"headers", &m.Headers, jsonTypes, false},
		{"order", &m.Order, nil, false},
		{"relayed_at", &m.Relayed, timeTypes, false}, // required unless rows are deleted
		{"attempt", &m.Attempt, intTypes, false},
		{"failed_at", &m.Failed, timeTypes, false},
		{"last_error", &m.LastError, textTypes, false},
		{"inserted_at", &m.Inserted, timeTypes, false},
		{"updated_at", &m.Updated, timeTypes, false},
		{"available_at", &m.Available, timeTypes, false},
		{"priority", &m.Rank, intTypes, false},
		{"txid", &m.Txid, txidTypes, false},
	}
}

// typeNames are the types of required columns, as a remedy names them.
var typeNames = map[string]string{
	"id":         "uuid, bigint, integer, smallint, text or varchar",
	"payload":    "jsonb, json, text, varchar or bytea",
	"relayed_at": "timestamp or timestamptz",
}

// rowWriter is the system column with the transaction that wrote a row last.
const rowWriter = "xmin"

// inserter is the expression for the transaction that inserted a row, taken from the column that holds it. When
// another destination writes into the row later, xmin changes, which must not make the row look like a late commit. A
// number that has not been assigned yet comes from another server, for example in rows that were restored from a dump.
func inserter(txid Column) string {
	return fmt.Sprintf("(case when %[1]s < (select pg_snapshot_xmax(pg_current_snapshot())) then %[1]s::xid else "+
		"%[2]s end)",
		txid.Name, rowWriter)
}

// mapColumns finds the column for each part of a view, and checks types and rights. If there is any problem, it
// returns no mapping.
func mapColumns(r *relation, config Config, view View) (*mapping, []*SetupError) {
	m := &mapping{
		delete: config.Delete, writer: rowWriter, place: "ctid", texts: map[string]bool{},
		indistinct: map[string]bool{}, shards: max(config.Shards, 1),
	}
	if r.Kind == "p" && r.parts == nil { // places repeat in each of the partitions, which are all looked at
		m.place = noPlace
	}
	p := parts{
		relation: r, view: view, names: config.Names, named: config.Columns, preferred: config.Preferred, mapping: m,
	}
	for _, r := range m.roles() {
		if required := r.required || r.name == "relayed_at" && !config.Delete; required || r.types != nil {
			*r.column = p.column(r, required)
		}
	}
	if m.Txid.Has() {
		m.writer = inserter(m.Txid)
	}
	m.Order = p.order()
	p.key(config.Key)
	p.fromOrigin(config)
	if m.Topic.Has() {
		m.topicText = p.text(m.Topic)
	}
	p.extra(config.Extra, config.Headers)
	p.place(config.Headers)
	if !config.Looks {
		if view.Encoded {
			p.encoded()
		}
		if view.Expires {
			p.dated()
		}
	}
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	if beside, ok := r.uniqueWith(m.ID); !ok || beside != nil {
		m.apart, m.beside = true, beside
	}
	if m.apart && m.beside == nil && view.written(config) {
		return nil, []*SetupError{problem(checkTable,
			"let a unique index hold "+m.ID.Plain+", alone or with others, and all of its columns be not null; or "+
				"keep the destination's state in the columns of the table",
			"destination %s has columns of its own, and no unique index of table %s distinguishes its rows: each mark "+
				"of another destination would move a row, which would then be published again here",
			view.Name, p.table())}
	}
	if m.apart && m.beside == nil {
		m.place = noPlace // the place is in the identity
	}
	m.Taken = config.takes(view, m.Topic)
	m.chooseIndexes(r)
	if !config.Looks && view.BlockFailed && m.Failed.Has() && m.Key != noKey && !m.failedIndex {
		return nil, []*SetupError{problem(checkTable,
			fmt.Sprintf("create one (create index concurrently on %s (%s, %s) where %s is not null), or remove %s",
				p.table(), m.Failed.Name, m.ID.Name, m.Failed.Name, view.Names.Of("BlockFailed")),
			"%s reads the failed rows every second, but table %s has no index on them",
			view.Names.Of("BlockFailed"), p.table())}
	}
	return m, nil
}

// sampled returns the columns of a sample, named for a subquery, then what is selected from the subquery and what it
// is grouped by.
func (m *mapping) sampled() (columns, selected, groups string) {
	columns = m.Topic.Name + "::text as topic, " + m.Inserted.Or("null::timestamptz") + " as inserted"
	selected, groups = "topic, max(inserted)", "topic"
	for i, expression := range m.extra {
		if m.indistinct[expression] {
			expression = "null::text"
		}
		columns += fmt.Sprintf(", %s as extra%d", expression, i)
		selected += fmt.Sprintf(", extra%d", i)
		groups += fmt.Sprintf(", extra%d", i)
	}
	return columns, selected, groups
}

// identity returns the expression that distinguishes every row from all others at a time, and its type. If ids are not
// known to be unique, the identity includes the columns that are unique together with the id. If there are no such
// columns, it includes the row's table, for example a partition, and its place there. Such a row counts as another row
// after it has been changed. The identity of a row that has failed or been relayed at another destination also
// includes the time of that event, so that nothing is written for a different event than the one that was read. here
// is the SQL that has to stand before "identity = any ($1)" for the rows to be found quickly. prefix stands before
// each column.
func (m *mapping) identity(prefix, idType string) (expression, typ, here string) {
	id := prefix + m.ID.Name
	var parts []string
	if m.apart && m.beside == nil {
		parts = []string{prefix + "ctid::text", prefix + "tableoid::text"}
	}
	for _, c := range m.beside {
		parts = append(parts, word(prefix, c))
	}
	if m.origin != nil {
		parts = append(parts, word(prefix, m.Order))
	}
	if parts == nil {
		return id, idType, ""
	}
	here = fmt.Sprintf("%s = any (array(select regexp_replace(i, '^([^ ]* ){%d}', '')::%s from unnest($1::text[]) i)) "+
		"and ", id, len(parts),
		idType)
	if m.apart && m.beside == nil {
		here = prefix + "ctid = any (array(select split_part(i, ' ', 1)::tid from unnest($1::text[]) i)) and "
	}
	return "(" + strings.Join(append(parts, "coalesce("+id+"::text, '')"), " || ' ' || ") + ")", "text", here
}

// compound reports whether a row's identity is more than its id.
func (m *mapping) compound() bool { return m.apart || m.origin != nil }

// word is a column's value as text without a blank.
func word(prefix string, c Column) string {
	return "translate(" + prefix + c.Name + "::text, ' ', '_')"
}

// shard is the expression for a row's shard. Every replica must compute the same value.
func (m *mapping) shard() string {
	if m.shards == 1 {
		return "0"
	}
	return fmt.Sprintf("(hashtext(coalesce(%s, %s::text)) & 2147483647) %% %d", m.Key, m.ID.Name, m.shards)
}

// pending is the condition for rows that are neither relayed nor failed and, if there is an origin, have failed or
// been relayed there.
func (m *mapping) pending() string {
	condition := pattern.Always
	if m.origin != nil {
		condition = m.Order.Name + " is not null"
	}
	for _, name := range m.nulls() {
		condition = pattern.And(condition, name+" is null")
	}
	return condition
}

// nulls returns the columns that are null in pending rows.
func (m *mapping) nulls() (names []string) {
	columns := []Column{m.Relayed, m.Failed}
	if m.origin != nil {
		columns = append(columns, m.origin.without)
	}
	for _, c := range columns {
		if c.Has() {
			names = append(names, c.Name)
		}
	}
	return names
}

// pendingByID is the pending condition for statements that give ids, phrased so that the rows are found by id if an
// index allows it.
func (m *mapping) pendingByID() string {
	nulls := m.nulls()
	switch {
	case !m.IDIndexed || len(nulls) == 0:
		return m.pending()
	case m.origin != nil:
		return isNull(nulls...) + " and num_nonnulls(" + m.Order.Name + ") = 1"
	}
	return isNull(nulls...)
}

// describe returns the mapping for the log.
func (m *mapping) describe() (found []any) {
	for _, r := range m.roles() {
		text := "none"
		if c := *r.column; c.Has() {
			if text = c.Plain + " " + c.Type; r.name == "order" && !c.NotNull {
				text += ", may be NULL"
			}
		}
		found = append(found, r.name, text)
	}
	found = append(found, "key", m.keySource, "pending_index", m.pendingIndex)
	if len(m.ignored) > 0 {
		found = append(found, "ignored", m.ignored)
	}
	return found
}
