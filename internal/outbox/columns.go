package outbox

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A role is what a column may be for the relay.
type role struct {
	name     string
	column   *Column
	types    []uint32 // those that fit; nil for any
	required bool
	without  string // the consequence if the table lacks it
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
	const counted, again = "tries are counted in memory only", "waits between tries begin again after a restart"
	const holds, logged = "a row that is refused for good holds its key for ever", "errors are only in the log, and "
	return []role{
		{name: "relayed_at", column: &s.Relayed, types: timeTypes, required: true}, // unless rows are deleted
		{name: "attempt", column: &s.Attempt, types: intTypes, without: counted, ddl: "integer not null default 1"},
		{name: "failed_at", column: &s.Failed, types: timeTypes, without: holds, ddl: "timestamptz"},
		{name: "last_error", column: &s.LastError, types: textTypes, without: logged + again, ddl: "text"},
		{name: "updated_at", column: &s.Updated, types: timeTypes, without: again, ddl: "timestamptz"},
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
	// varying are types whose values are written as settings say.
	varying   = slices.Concat(timeTypes, []uint32{pgtype.ByteaOID, pgtype.DateOID, pgtype.IntervalOID, pgtype.JSONOID})
	unordered = []uint32{pgtype.JSONOID, pgtype.JSONBOID, pgtype.XMLOID, pgtype.BoolOID}
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

// needed returns a column that is needed for something. It records a problem if the table lacks the column.
func (m *mapping) needed(column, remedy, what string, args ...any) Column {
	c := m.relation.columns[column]
	if !c.Has() {
		m.fail(remedy, "table %s has no column %s, "+what, append([]any{m.relation.table, column}, args...)...)
	}
	return c
}

// column returns the column that plays a role, the zero Column if the table has none that fits. Only a column of the
// view's own can play a role in the state that the view keeps in columns of its own.
func (m *mapping) column(r role, v View) Column {
	columns, names, setting := m.relation.columns, m.config.Columns, m.config.Names.Of("Columns")
	preferred, remedy, whose := m.config.Preferred[r.name], "correct "+setting, ""
	if v.Columns != nil {
		names, setting, whose = v.Columns, v.Names.Of("Columns"), " for destination "+v.Name
		remedy = "let its owner run what `outbox-relay schema --destination " + v.Name + "` prints, or correct " +
			setting
	}
	name, mapped := names[r.name]
	switch {
	case mapped:
	case v.Columns != nil:
		return Column{}
	case columns[preferred].Has():
		name = preferred
	default:
		name = r.name
	}
	c := columns[name]
	switch fits := r.types == nil || slices.Contains(r.types, c.OID); {
	case !c.Has() && mapped:
		m.needed(name, remedy, "which %s names as %s%s", setting, r.name, whose)
	case !c.Has() && r.required:
		add := "add it, or name another column with " + setting + "=" + r.name + ":NAME"
		if r.name == "relayed_at" {
			add += ", or set " + m.config.Names.Of("Delete") + ", which does not need it"
		}
		if preferred != "" {
			name = preferred + " or " + name
		}
		m.fail(add, "table %s has no column %s", m.relation.table, name)
	case !c.Has() || fits:
		return c
	case r.required || mapped:
		remedy = "map another column with " + setting + "=" + r.name + ":NAME, or change its type to one of these: " +
			typeNames(r.types)
		m.fail(remedy, "column %s of table %s has type %s, which the relay cannot use as %s",
			name, m.relation.table, c.Type, r.name)
	default:
		m.ignored = append(m.ignored, name+" ("+c.Type+")")
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
	c, named := m.relation.columns["seq"], m.config.Columns["order"] != ""
	if named {
		c = m.column(role{name: "order"}, View{})
	}
	if c.Has() && slices.Contains(unordered, c.OID) {
		if named {
			m.fail("correct "+m.config.Names.Of("Columns"),
				"column %s of table %s has type %s, which has no useful order", c.Plain, m.relation.table, c.Type)
		}
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
		c = m.needed(key.Name, "correct "+setting, "which %s names", setting)
	case rowkey.Topic:
		c = m.Topic
	case rowkey.Header, rowkey.Payload:
		m.Key, c = m.inJSON(key, "correct "+setting, fmt.Sprintf("%s=%s:%s", setting, key.Kind, key.Name))
		m.keySource = string(key.Kind) + " " + key.Name
	case rowkey.None, rowkey.Time:
	}
	m.keyVaries = slices.Contains(varying, c.OID)
	switch {
	case !c.Has() || m.keySource != noSource:
	case c.isText() && key.Kind != rowkey.Topic:
		m.Key, m.keySource = c.Name, "column "+c.Plain
	default:
		m.Key, m.keySource = c.text(), "column "+c.Plain
	}
}

// inJSON returns the expression for a value in JSON as text, a row's own header or the value at a path of its payload,
// and the column with the JSON. It records a problem if the table has no such JSON.
func (m *mapping) inJSON(s rowkey.Source, remedy, what string) (string, Column) {
	c, needs, at := m.Payload, "a payload", "#>> array["+sql.Literals(strings.Split(s.Name, "."))+"]"
	if s.Kind == rowkey.Header {
		c, needs, at = m.Headers, "a headers column", "->> "+sql.Literal(s.Name)
		remedy += ", or name the column with " + m.config.Names.Of("Columns") + "=headers:NAME"
	}
	if !isJSON(c) {
		m.fail(remedy, "%s needs %s of type jsonb or json, and table %s has none", what, needs, m.relation.table)
		return noKey, c
	}
	return jsonText(c, at), c
}

// extraText returns the expression for an additional text of a row.
func (m *mapping) extraText(s rowkey.Source) string {
	const remedy = "correct the template"
	sent := m.relation.columns[m.config.Columns[sentAs+s.Name]] // as this header
	switch {
	case s.Kind == rowkey.Time:
		setting := m.config.Names.Of("TimeColumn")
		c := m.needed(s.Name, "correct "+setting+", or add the column", "which %s names", setting)
		if c.Has() && !slices.Contains(timeTypes, c.OID) {
			m.fail("correct "+setting, "column %s of table %s has type %s, which is not a timestamp",
				s.Name, m.relation.table, c.Type)
		}
		const form = "case when isfinite(%[1]s) then (extract(epoch from %[1]s) * 1000)::bigint::text end"
		return fmt.Sprintf(form, c.Name)
	case s.Kind != rowkey.Header && s.Kind != rowkey.Payload:
		return m.needed(s.Name, remedy+", or add the column", "which a template names as {%s}", s.Name).text()
	case s.Kind == rowkey.Header && sent.Has() && !m.Headers.Has():
		return sent.text()
	}
	text, _ := m.inJSON(s, remedy, fmt.Sprintf("a template names {%s.%s}, which", s.Kind, s.Name))
	if s.Kind == rowkey.Header && sent.Has() {
		text = "coalesce(" + text + ", " + sent.text() + ")"
	}
	return text
}

// placed is a column whose text is sent as a header.
type placed struct{ header, expression string }

// placeHeaders finds the columns that are sent as headers.
func (m *mapping) placeHeaders() {
	setting := m.config.Names.Of("Columns")
	for _, ours := range slices.Sorted(maps.Keys(m.config.Columns)) {
		header, isSent := strings.CutPrefix(ours, sentAs)
		if !isSent {
			continue
		}
		c := m.needed(m.config.Columns[ours], "correct "+setting, "which %s sends as header %s", setting, header)
		expression := c.text()
		if c.OID == pgtype.IntervalOID && strings.EqualFold(header, publisher.HeaderNATSTTL) { // it is in seconds
			const form = "case when isfinite(%[1]s) then ceil(extract(epoch from %[1]s))::bigint::text end"
			expression = fmt.Sprintf(form, c.Name)
		}
		m.placed = append(m.placed, placed{header, expression})
	}
}
