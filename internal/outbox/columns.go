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
	const again = "waits between tries begin again after a restart"
	return []role{
		{name: "relayed_at", column: &s.Relayed, types: timeTypes, required: true}, // unless rows are deleted
		{
			name: "attempt", column: &s.Attempt, types: intTypes, ddl: "integer not null default 1",
			without: "tries are counted in memory only, and begin again after a restart",
		},
		{
			name: "failed_at", column: &s.Failed, types: timeTypes, ddl: "timestamptz",
			without: "a row that the broker refuses for good holds its key for ever",
		},
		{
			name: "last_error", column: &s.LastError, types: textTypes, ddl: "text",
			without: "why a row was refused is only in the log, and " + again,
		},
		{name: "updated_at", column: &s.Updated, types: timeTypes, ddl: "timestamptz", without: again},
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

// finder looks up columns and collects the problems.
type finder struct {
	*relation
	config   *Config
	ignored  []string // columns with a name of the relay's whose type does not fit
	problems []*SetupError
}

// fail records a problem of the columns.
func (f *finder) fail(remedy, format string, args ...any) {
	f.problems = append(f.problems, problem(checkColumns, remedy, format, args...))
}

// needed returns a column that is needed for something. It records a problem if the table lacks the column.
func (f *finder) needed(column, remedy, what string, args ...any) Column {
	c := f.columns[column]
	if !c.Has() {
		f.fail(remedy, "table %s has no column %s, "+what, append([]any{f.table, column}, args...)...)
	}
	return c
}

// column returns the column that plays a role, the zero Column if the table has none that fits. Only a column of the
// view's own can play a role in the state that the view keeps in columns of its own.
func (f *finder) column(r role, v View) Column {
	names, setting := f.config.Columns, f.config.Names.Of("Columns")
	remedy, whose := "correct "+setting, ""
	if v.Columns != nil {
		names, setting, whose = v.Columns, v.Names.Of("Columns"), " for destination "+v.Name
		remedy = "let its owner run what `outbox-relay schema --destination " + v.Name + "` prints, or correct " +
			setting
	}
	name, mapped := names[r.name]
	if !mapped {
		if v.Columns != nil {
			return Column{}
		}
		if name = r.name; f.columns[f.config.Preferred[r.name]].Has() {
			name = f.config.Preferred[r.name]
		}
	}
	c := f.columns[name]
	switch fits := r.types == nil || slices.Contains(r.types, c.OID); {
	case !c.Has() && mapped:
		f.needed(name, remedy, "which %s names as %s%s", setting, r.name, whose)
	case !c.Has() && r.required:
		add := "add it, or name another column with " + setting + "=" + r.name + ":NAME"
		if r.name == "relayed_at" {
			add += ", or set " + f.config.Names.Of("Delete") + ", which does not need it"
		}
		if other := f.config.Preferred[r.name]; other != "" {
			name = other + " or " + name
		}
		f.fail(add, "table %s has no column %s", f.table, name)
	case !c.Has() || fits:
		return c
	case r.required || mapped:
		remedy = "map another column with " + setting + "=" + r.name + ":NAME, or change its type to one of these: " +
			typeNames(r.types)
		f.fail(remedy, "column %s of table %s has type %s, which the relay cannot use as %s",
			name, f.table, c.Type, r.name)
	default:
		f.ignored = append(f.ignored, name+" ("+c.Type+")")
	}
	return Column{}
}

// state returns the columns that keep the state of a view's rows.
func (f *finder) state(v View) (s state) {
	for _, r := range s.roles() {
		r.required = r.required && !f.config.Delete
		*r.column = f.column(r, v)
	}
	return s
}

// order returns the column whose values give the table its order: order or seq, else inserted_at, else the id.
func (f *finder) order(m *mapping) Column {
	c, named := f.columns["seq"], f.config.Columns["order"] != ""
	if named {
		c = f.column(role{name: "order"}, View{})
	}
	if c.Has() && slices.Contains(unordered, c.OID) {
		if named {
			f.fail("correct "+f.config.Names.Of("Columns"),
				"column %s of table %s has type %s, which has no useful order", c.Plain, f.table, c.Type)
		}
		f.ignored, c = append(f.ignored, c.Plain+" ("+c.Type+")"), Column{}
	}
	return cmp.Or(c, m.Inserted, m.ID)
}

// The key and the place of every row in a table without them.
const (
	noKey    = "null::text"
	noSource = "none"
	noPlace  = "null::tid"
)

func (f *finder) key(m *mapping) {
	key, setting := f.config.Key, f.config.Names.Of("Key")
	var c Column
	switch m.Key, m.keySource = noKey, noSource; key.Kind {
	case rowkey.Default:
		c = f.column(role{name: "key"}, View{})
	case rowkey.Column:
		c = f.needed(key.Name, "correct "+setting, "which %s names", setting)
	case rowkey.Header, rowkey.Payload:
		from, kind := m.Headers, "header"
		if key.Kind == rowkey.Payload {
			from, kind = m.Payload, "payload"
		}
		m.Key = f.inJSON(m, kind, key.Name, "correct "+setting, fmt.Sprintf("%s=%s:%s", setting, kind, key.Name))
		m.keySource, m.keyVaries = kind+" "+key.Name, from.OID == pgtype.JSONOID
	case rowkey.Topic:
		c = m.Topic
	case rowkey.None:
	}
	if c.Has() {
		m.Key, m.keySource, m.keyVaries = c.text(), "column "+c.Plain, slices.Contains(varying, c.OID)
	}
	if c.isText() && key.Kind != rowkey.Topic {
		m.Key = c.Name
	}
}

// inJSON returns the expression for a value in JSON as text: a row's own header, or the value at a path of its payload.
// It records a problem if the table has no such JSON.
func (f *finder) inJSON(m *mapping, kind, name, remedy, what string) string {
	c, needs, at := m.Payload, "a payload", "#>> array["+sql.Literals(strings.Split(name, "."))+"]"
	if kind == "header" {
		c, needs, at = m.Headers, "a headers column", "->> "+sql.Literal(name)
		remedy += ", or name the column with " + f.config.Names.Of("Columns") + "=headers:NAME"
	}
	if !isJSON(c) {
		f.fail(remedy, "%s needs %s of type jsonb or json, and table %s has none", what, needs, f.table)
		return noKey
	}
	return jsonText(c, at)
}

// extra returns the expression for an additional text of a row.
func (f *finder) extra(m *mapping, e Extra) string {
	inJSON := func(kind string) string {
		return f.inJSON(m, kind, e.Name, "correct the template", "a template names {"+kind+"."+e.Name+"}, which")
	}
	switch e.Kind {
	case ExtraPayload:
		return inJSON("payload")
	case ExtraHeader:
		switch c := f.columns[f.config.Headers[e.Name]]; { // sent as this header
		case !c.Has():
			return inJSON("header")
		case !m.Headers.Has():
			return c.text()
		default:
			return "coalesce(" + inJSON("header") + ", " + c.text() + ")"
		}
	case ExtraTime: // in milliseconds since 1970
		setting := f.config.Names.Of("TimeColumn")
		c := f.needed(e.Name, "correct "+setting+", or add the column", "which %s names", setting)
		if c.Has() && !slices.Contains(timeTypes, c.OID) {
			f.fail("correct "+setting, "column %s of table %s has type %s, which is not a timestamp",
				e.Name, f.table, c.Type)
		}
		const form = "case when isfinite(%[1]s) then (extract(epoch from %[1]s) * 1000)::bigint::text end"
		return fmt.Sprintf(form, c.Name)
	default:
		const remedy = "correct the template, or add the column"
		return f.needed(e.Name, remedy, "which a template names as {%s}", e.Name).text()
	}
}

// placed is a column whose text is sent as a header.
type placed struct{ header, expression string }

func (f *finder) headers() (all []placed) {
	for _, header := range slices.Sorted(maps.Keys(f.config.Headers)) {
		setting := f.config.Names.Of("Columns")
		c := f.needed(f.config.Headers[header], "correct "+setting, "which %s sends as header %s", setting, header)
		expression := c.text()
		if c.OID == pgtype.IntervalOID && strings.EqualFold(header, publisher.HeaderNATSTTL) { // it is in seconds
			const form = "case when isfinite(%[1]s) then ceil(extract(epoch from %[1]s))::bigint::text end"
			expression = fmt.Sprintf(form, c.Name)
		}
		all = append(all, placed{header, expression})
	}
	return all
}
