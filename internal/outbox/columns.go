package outbox

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A role is what a column may be for the relay.
type role struct {
	name     string
	column   *Column
	types    []uint32 // those that fit; nil for any
	required bool
	ddl      string // type and default of a destination's own column
}

// roles are the roles of columns that all destinations share; the order is found otherwise.
func (m *mapping) roles() []role {
	return []role{
		{name: "id", column: &m.ID, types: idTypes, required: true},
		{name: "topic", column: &m.Topic, required: true},
		{name: "payload", column: &m.Payload, types: payloadTypes, required: true},
		{name: "headers", column: &m.Headers, types: jsonTypes},
		{name: "inserted_at", column: &m.Inserted, types: timeTypes},
		{name: "available_at", column: &m.Available, types: timeTypes},
		{name: "priority", column: &m.Rank, types: intTypes},
		{name: "txid", column: &m.Txid, types: txidTypes},
	}
}

// state is the columns that keep what became of a row at a destination.
type state struct{ Relayed, Attempt, Failed, LastError, Updated Column }

func (s *state) roles() []role {
	return []role{
		{name: "relayed_at", column: &s.Relayed, types: timeTypes, required: true}, // unless rows are deleted
		{name: "attempt", column: &s.Attempt, types: intTypes, ddl: "integer not null default 1"},
		{name: "failed_at", column: &s.Failed, types: timeTypes, ddl: "timestamptz"},
		{name: "last_error", column: &s.LastError, types: textTypes, ddl: "text"},
		{name: "updated_at", column: &s.Updated, types: timeTypes, ddl: "timestamptz"},
	}
}

// columns are the columns that the table has.
func (s *state) columns() (all []Column) {
	for _, r := range s.roles() {
		if r.column.Has() {
			all = append(all, *r.column)
		}
	}
	return all
}

// found are all roles, with the columns that were found for them.
func (m *mapping) found() []role {
	return slices.Concat(m.roles(), []role{{name: "order", column: &m.Order}}, m.state.roles())
}

var (
	idTypes      = slices.Concat([]uint32{pgtype.UUIDOID, pgtype.TextOID, pgtype.VarcharOID}, intTypes)
	payloadTypes = slices.Concat(jsonTypes, []uint32{pgtype.TextOID, pgtype.VarcharOID, pgtype.ByteaOID})
	textTypes    = []uint32{pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID}
	jsonTypes    = []uint32{pgtype.JSONBOID, pgtype.JSONOID}
	txidTypes    = []uint32{pgtype.XID8OID}
	timeTypes    = []uint32{pgtype.TimestamptzOID, pgtype.TimestampOID}
	intTypes     = []uint32{pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID}
	// plainTypes are types whose values have one text form each.
	plainTypes = slices.Concat([]uint32{pgtype.UUIDOID, pgtype.DateOID}, timeTypes, intTypes)
	unordered  = []uint32{pgtype.JSONOID, pgtype.JSONBOID, pgtype.XMLOID, pgtype.BoolOID}
)

// typeNames names types in a sentence.
func typeNames(types []uint32) string {
	known := pgtype.NewMap()
	return strings.Join(each(types, func(oid uint32) string {
		t, _ := known.TypeForOID(oid)
		return t.Name
	}), ", ")
}

// fail records a problem of the columns, which keeps a destination from using the table.
func (m *mapping) fail(remedy, format string, args ...any) {
	m.problems = append(m.problems, problem(checkColumns, remedy, format, args...))
}

// needed returns a column that a setting names. It records a problem if the table lacks it or its type does not fit.
func (m *mapping) needed(column, setting string, types ...uint32) Column {
	c := m.relation.columns[column]
	if !c.Has() || types != nil && !slices.Contains(types, c.OID) {
		if types != nil {
			column += " of one of the types " + typeNames(types)
		}
		m.fail("add the column, or correct "+setting, "table %s has no column %s, which %s names", m.relation.table,
			column, setting)
	}
	return c
}

// column returns the column that plays a role, the zero Column if the table has none that fits. Only a column of the
// view's own can play a role in the state that the view keeps in columns of its own.
func (m *mapping) column(r role, v View) Column {
	names, setting, preferred := m.config.Columns, m.config.Names.Of("Columns"), m.config.Preferred[r.name]
	add := "add the column"
	if v.Columns != nil {
		names, setting = v.Columns, v.Names.Of("Columns")
		add = "let its owner run what `outbox-relay schema --destination " + v.Name + "` prints"
	}
	name, mapped := names[r.name]
	switch {
	case mapped:
	case v.Columns != nil:
		return Column{}
	case m.relation.columns[preferred].Has():
		name = preferred
	default:
		name = r.name
	}
	c := m.relation.columns[name]
	switch fits := r.types == nil || slices.Contains(r.types, c.OID); {
	case c.Has() && fits:
		return c
	case !mapped && !r.required:
		if c.Has() {
			m.ignored = append(m.ignored, name+" ("+c.Type+")")
		}
	case c.Has():
		m.fail("name another column with "+setting+"="+r.name+":NAME, or change its type to one of these: "+
			typeNames(r.types), "column %s of table %s has type %s, which the relay cannot use as %s",
			name, m.relation.table, c.Type, r.name)
	default:
		m.fail(add+", or name another one with "+setting+"="+r.name+":NAME", "table %s has no column %s",
			m.relation.table, name)
	}
	return Column{}
}

// stateOf returns the columns that keep the state of a view's rows.
func (m *mapping) stateOf(v View) (s state) {
	for _, r := range s.roles() {
		r.required = r.required && !m.config.Delete
		*r.column = m.column(r, v)
	}
	return s
}

// inOrder returns the column whose values give the table its order: order or seq, else inserted_at, else the id.
func (m *mapping) inOrder() Column {
	c := m.relation.columns["seq"]
	if m.config.Columns["order"] != "" {
		c = m.column(role{name: "order"}, View{})
	} else if slices.Contains(unordered, c.OID) { // it merely has the name
		m.ignored, c = append(m.ignored, c.Plain+" ("+c.Type+")"), Column{}
	}
	return cmp.Or(c, m.Inserted, m.ID)
}

// The key and the place of every row in a table without them.
const (
	noKey    = "null::text"
	noSource = "none"
	noPlace  = "null::tid"
)

// findKey finds where the keys come from.
func (m *mapping) findKey() {
	key, setting := m.config.Key, m.config.Names.Of("Key")
	var c Column
	switch m.Key, m.keySource = noKey, noSource; key.Kind {
	case rowkey.Default:
		c = m.column(role{name: "key"}, View{})
	case rowkey.Column:
		c = m.needed(key.Name, setting)
	case rowkey.Topic:
		c = m.Topic
	case rowkey.Header, rowkey.Payload:
		m.Key, m.keySource = m.inJSON(key, setting), string(key.Kind)+" "+key.Name
	case rowkey.None, rowkey.Time:
	}
	if c.Has() {
		m.Key, m.keySource = c.text(), "column "+c.Plain
		if c.isText() && key.Kind != rowkey.Topic {
			m.Key = c.Name
		}
	}
}

// inJSON returns the expression for a value in JSON as text, a row's own header or the value at a path of its payload.
// It records a problem if the table has no such JSON.
func (m *mapping) inJSON(s rowkey.Source, setting string) string {
	c, at := m.Payload, "#>> array["+sql.Literals(strings.Split(s.Name, "."))+"]"
	if s.Kind == rowkey.Header {
		c, at = m.Headers, "->> "+sql.Literal(s.Name)
	}
	if !isJSON(c) {
		m.fail("correct "+setting+", or name a column with "+m.config.Names.Of("Columns"),
			"%s names the %s %s, and table %s has no column of type jsonb or json for it", setting, s.Kind, s.Name,
			m.relation.table)
		return noKey
	}
	return jsonText(c, at)
}

// extraText returns the expression for an additional text of a row.
func (m *mapping) extraText(s rowkey.Source) string {
	template := "the template with {" + s.Name + "}"
	sent := m.relation.columns[m.config.Columns[sentAs+s.Name]] // as this header
	switch {
	case s.Kind == rowkey.Time:
		const form = "case when isfinite(%[1]s) then (extract(epoch from %[1]s) * 1000)::bigint::text end"
		return fmt.Sprintf(form, m.needed(s.Name, m.config.Names.Of("TimeColumn"), timeTypes...).Name)
	case s.Kind != rowkey.Header && s.Kind != rowkey.Payload:
		return m.needed(s.Name, template).text()
	case s.Kind == rowkey.Header && sent.Has():
		return sent.text()
	}
	return m.inJSON(s, template)
}

// placed is a column whose text is sent as a header.
type placed struct{ header, expression string }

// placeHeaders finds the columns that are sent as headers.
func (m *mapping) placeHeaders() {
	for _, ours := range slices.Sorted(maps.Keys(m.config.Columns)) {
		if header, isSent := strings.CutPrefix(ours, sentAs); isSent {
			c := m.needed(m.config.Columns[ours], m.config.Names.Of("Columns")+"="+ours)
			m.placed = append(m.placed, placed{header, c.text()})
		}
	}
}
