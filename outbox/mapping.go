package outbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/sql"
)

// mapping says which column of the table plays which part. A part that the table lacks is nil.
type mapping struct {
	id, topic, payload, headers         *column
	attempt, relayed, failed, lastError *column
	inserted, updated, available, rank  *column
	order                               *column
	key                                 string   // an SQL expression of type text
	keyColumn                           string   // the column it is, if it is one
	extra                               []string // SQL expressions of type text
	placed                              []placed // columns that are sent as headers
	ignored                             []string // columns with a name of ours whose type does not fit
	pendingIndex, keyIndex, failedIndex bool
	inOrder                             bool // the index of pending rows gives them in table order
	relayedFirst                        bool // and begins with relayed_at
	delete                              bool
	writer                              string // an SQL expression: the transaction that wrote a row last
	place                               string // an SQL expression: where the row is, null where that does not lead to it
	shards                              int
}

var (
	idTypes      = []uint32{oidUUID, oidInt8, oidInt4, oidInt2, oidText, oidVarchar}
	payloadTypes = []uint32{oidJSONB, oidJSON, oidText, oidVarchar, oidBytea, oidXML}
	textTypes    = []uint32{oidText, oidVarchar, oidBpchar}
	jsonTypes    = []uint32{oidJSONB, oidJSON}
	timeTypes    = []uint32{oidTimestamp, oidTimestamptz}
	intTypes     = []uint32{oidInt2, oidInt4, oidInt8}
	unordered    = []uint32{oidJSON, oidJSONB, oidXML, oidBool}
)

// mapColumns finds the part of each column, and checks types and rights. With any problem there is no
// mapping.
func mapColumns(r *relation, config Config) (*mapping, []*SetupError) {
	m := &mapping{delete: config.Delete, writer: "xmin", place: "ctid"}
	if !r.writers { // with rights on single columns only: each row counts as written long ago
		m.writer, m.place = "'2'::xid", noPlace
	}
	if r.kind == "p" { // each partition has the same places
		m.place = noPlace
	}
	p := parts{relation: r, names: config.Columns, preferred: config.Preferred, mapping: m}
	m.id = p.required("id", idTypes, "uuid, bigint, integer, smallint, text or varchar")
	m.topic = p.required("topic", nil, "")
	m.payload = p.required("payload", payloadTypes, "jsonb, json, text, varchar, xml or bytea")
	if config.Delete {
		m.relayed = p.optional("relayed_at", timeTypes)
	} else {
		m.relayed = p.required("relayed_at", timeTypes, "timestamp or timestamptz")
	}
	m.headers = p.optional("headers", jsonTypes)
	m.attempt = p.optional("attempt", intTypes)
	m.failed = p.optional("failed_at", timeTypes)
	m.lastError = p.optional("last_error", textTypes)
	m.updated = p.optional("updated_at", timeTypes)
	m.inserted = p.optional("inserted_at", timeTypes)
	m.available = p.optional("available_at", timeTypes)
	m.rank = p.optional("priority", intTypes)
	m.order = p.order()
	p.key(config.Key)
	p.extra(config.Extra)
	p.place(config.Headers)
	p.rights()
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	m.chooseIndexes(r.indexes)
	if config.BlockFailed && m.failed != nil && m.key != noKey && !m.failedIndex {
		return nil, []*SetupError{problem(checkTable, fmt.Sprintf("create one (create index concurrently on %s (%s) where %s is not null), or set OUTBOX_ON_FAILED=continue",
			p.table(), sql.Quote(m.failed.name), sql.Quote(m.failed.name)),
			"OUTBOX_ON_FAILED=block asks for the failed rows every second, and table %s has no index of them", p.table())}
	}
	return m, nil
}

// parts looks up columns and keeps the problems.
type parts struct {
	*relation
	*mapping
	names     map[string]string
	preferred map[string]string
	problems  []*SetupError
}

// fail notes a problem of the columns.
func (p *parts) fail(remedy, format string, args ...any) {
	p.problems = append(p.problems, problem(checkColumns, remedy, format, args...))
}

// deny notes a right that is missing.
func (p *parts) deny(format string, args ...any) {
	p.problems = append(p.problems, problem(checkRights, grantRemedy(p.role), format, args...))
}

func (p *parts) table() string { return p.schema + "." + p.relation.name }

// find returns the column that plays a part, and whether the configuration names it.
func (p *parts) find(part string) (c *column, name string, mapped bool) {
	name, mapped = p.names[part]
	if !mapped {
		name = part
		if other := p.preferred[part]; p.columns[other] != nil {
			name = other
		}
	}
	c = p.columns[name]
	if c == nil && mapped {
		p.fail("correct OUTBOX_COLUMNS", "table %s has no column %s, which OUTBOX_COLUMNS names as %s", p.table(), name, part)
	}
	return c, name, mapped
}

func (p *parts) required(part string, types []uint32, readable string) *column {
	c, name, mapped := p.find(part)
	switch {
	case c == nil && !mapped:
		remedy := "add it, or name another column with OUTBOX_COLUMNS=" + part + ":NAME"
		if part == "relayed_at" {
			remedy += ", or set OUTBOX_SETTLE=delete to do without"
		}
		if other := p.preferred[part]; other != "" {
			name = other + " or " + name
		}
		p.fail(remedy, "table %s has no column %s", p.table(), name)
	case c != nil && types != nil && !slices.Contains(types, c.oid):
		p.fail("map another column with OUTBOX_COLUMNS="+part+":NAME, or change its type to "+readable,
			"column %s of table %s has type %s, which the relay cannot use as %s", name, p.table(), c.typ, part)
	}
	return p.readable(c)
}

func (p *parts) optional(part string, types []uint32) *column {
	c, name, mapped := p.find(part)
	if c == nil {
		return nil
	}
	if !slices.Contains(types, c.oid) {
		if mapped {
			p.fail("correct OUTBOX_COLUMNS", "column %s of table %s has type %s, which the relay cannot use as %s", name, p.table(), c.typ, part)
		}
		p.ignored = append(p.ignored, name+" ("+c.typ+")")
		return nil
	}
	return p.readable(c)
}

func (p *parts) readable(c *column) *column {
	if c != nil && !c.canSelect {
		p.deny("role %s may not read column %s of table %s", p.role, c.name, p.table())
	}
	return c
}

// order returns the column whose values give the table its order: order or seq, else inserted_at,
// else the id.
func (p *parts) order() *column {
	c, _, mapped := p.find("order")
	if !mapped {
		c = p.columns["seq"]
	}
	if c != nil && slices.Contains(unordered, c.oid) {
		if mapped {
			p.fail("correct OUTBOX_COLUMNS", "column %s of table %s has type %s, which has no useful order", c.name, p.table(), c.typ)
		}
		p.ignored = append(p.ignored, c.name+" ("+c.typ+")")
		c = nil
	}
	switch {
	case c != nil:
		return p.readable(c)
	case p.inserted != nil:
		return p.inserted
	default:
		return p.id
	}
}

// The key and the place of every row in a table without them.
const (
	noKey   = "null::text"
	noPlace = "null::tid"
)

func (p *parts) key(key Key) {
	p.mapping.key = noKey
	byColumn := func(c *column) {
		p.readable(c)
		p.mapping.key, p.keyColumn = sql.Quote(c.name)+"::text", c.name
		if slices.Contains(textTypes[:2], c.oid) {
			p.mapping.key = sql.Quote(c.name)
		}
	}
	switch key.Kind {
	case KeyDefault:
		if c, _, _ := p.find("key"); c != nil {
			byColumn(c)
		}
	case KeyColumn:
		if c := p.columns[key.Name]; c != nil {
			byColumn(c)
		} else {
			p.fail("correct OUTBOX_KEY", "table %s has no column %s, which OUTBOX_KEY names", p.table(), key.Name)
		}
	case KeyHeader:
		if p.headers == nil {
			p.fail("correct OUTBOX_KEY, or name the column with OUTBOX_COLUMNS=headers:NAME",
				"OUTBOX_KEY=header:%s needs a headers column of type jsonb or json, and table %s has none", key.Name, p.table())
			return
		}
		p.mapping.key = jsonText(p.headers, "->> "+sql.Literal(key.Name))
	case KeyPayload:
		if p.payload == nil || !slices.Contains(jsonTypes, p.payload.oid) {
			p.fail("correct OUTBOX_KEY", "OUTBOX_KEY=payload:%s needs a payload of type jsonb or json", key.Name)
			return
		}
		var path []string
		for part := range strings.SplitSeq(key.Name, ".") {
			path = append(path, sql.Literal(part))
		}
		p.mapping.key = jsonText(p.payload, "#>> array["+strings.Join(path, ", ")+"]")
	case KeyTopic:
		if p.topic != nil {
			p.mapping.key, p.keyColumn = sql.Quote(p.topic.name)+"::text", p.topic.name
		}
	case KeyNone:
	}
}

func (p *parts) extra(names []string) {
	for _, name := range names {
		c := p.columns[name]
		if c == nil {
			p.fail("correct the template, or add the column", "table %s has no column %s, which a template names as {%s}", p.table(), name, name)
			return
		}
		p.readable(c)
		p.mapping.extra = append(p.mapping.extra, sql.Quote(name)+"::text")
	}
}

// placed is a column whose text is sent as a header.
type placed struct{ header, expression string }

func (p *parts) place(headers map[string]string) {
	for _, header := range slices.Sorted(maps.Keys(headers)) {
		name := headers[header]
		c := p.columns[name]
		if c == nil {
			p.fail("correct OUTBOX_COLUMNS", "table %s has no column %s, which OUTBOX_COLUMNS sends as header %s", p.table(), name, header)
			return
		}
		p.readable(c)
		p.placed = append(p.placed, placed{header, sql.Quote(name) + "::text"})
	}
}

// rights checks that the role may write what the relay writes.
func (p *parts) rights() {
	if p.delete {
		if !p.canDelete {
			p.deny("role %s may not delete from table %s, as OUTBOX_SETTLE=delete needs", p.role, p.table())
		}
	} else if p.relayed != nil && !p.relayed.canUpdate {
		p.deny("role %s may not update column %s of table %s", p.role, p.relayed.name, p.table())
	}
	for _, c := range []*column{p.attempt, p.failed, p.lastError, p.updated} {
		if c != nil && !c.canUpdate {
			p.deny("role %s may not update column %s of table %s", p.role, c.name, p.table())
		}
	}
}

// sampled are the further columns under names of their own, for a subquery.
func (m *mapping) sampled() []string {
	columns := make([]string, len(m.extra))
	for i, expression := range m.extra {
		columns[i] = fmt.Sprintf("%s as extra%d", expression, i)
	}
	return columns
}

// shard is the expression of a row's shard. Every replica must compute the same.
func (m *mapping) shard() string {
	if m.shards == 1 {
		return "0"
	}
	return fmt.Sprintf("(hashtext(coalesce(%s, %s::text)) & 2147483647) %% %d", m.key, sql.Quote(m.id.name), m.shards)
}

// pending is the condition of rows that are neither relayed nor failed, and its parts as
// PostgreSQL prints them in an index's predicate.
func (m *mapping) pending() (condition string, printed []string) {
	for _, c := range []*column{m.relayed, m.failed} {
		if c != nil {
			printed = append(printed, sql.Quote(c.name)+" IS NULL", c.name+" IS NULL")
			condition += " and " + sql.Quote(c.name) + " is null"
		}
	}
	if condition == "" {
		return "true", nil
	}
	return strings.TrimPrefix(condition, " and "), printed
}

// chooseIndexes finds which reads an index makes cheap.
func (m *mapping) chooseIndexes(indexes []index) {
	_, pending := m.pending()
	orderFirst := false
	for _, i := range indexes {
		if !i.usableFor(pending...) {
			if m.failed != nil && (i.usableFor(sql.Quote(m.failed.name)+" IS NOT NULL", m.failed.name+" IS NOT NULL") && len(i.conjuncts) > 0) {
				m.failedIndex = true
			}
			continue
		}
		partial := len(i.conjuncts) > 0
		switch {
		case m.failed != nil && i.starts(m.failed.name) && !partial:
			m.failedIndex = true
		case i.starts(m.order.name) && (partial || m.relayed == nil):
			m.pendingIndex, orderFirst = true, true
		case m.relayed != nil && i.starts(m.relayed.name, m.order.name):
			m.pendingIndex, m.relayedFirst = true, true
		case m.keyColumn != "" && i.starts(m.keyColumn) && partial:
			m.keyIndex = true
		case m.relayed != nil && (partial || i.starts(m.relayed.name)):
			m.pendingIndex = true
		}
	}
	m.inOrder = (orderFirst || m.relayedFirst) && m.rank == nil
	m.relayedFirst = m.relayedFirst && !orderFirst
}

// describe returns what was found, for the log.
func (m *mapping) describe() []any {
	name := func(c *column) string {
		if c == nil {
			return "none"
		}
		return c.name + " " + c.typ
	}
	return []any{"id", name(m.id), "order", name(m.order), "payload", name(m.payload), "key", m.key,
		"headers", name(m.headers), "attempt", name(m.attempt), "failed_at", name(m.failed),
		"available_at", name(m.available), "priority", name(m.rank),
		"pending_index", m.pendingIndex, "ignored", fmt.Sprint(m.ignored)}
}
