package outbox

import (
	"fmt"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/sql"
)

// mapping says which column of the table plays which part. A part that the table lacks is nil.
type mapping struct {
	id, topic, payload, headers         *column
	attempt, relayed, failed, lastError *column
	inserted, updated, available, rank  *column
	txid                                *column
	order                               *column
	origin                              *upstream       // whose rows these are; nil if they are taken as they are inserted
	key, topicText                      string          // SQL expressions of type text
	keyColumn                           string          // the column it is, if it is one
	extra                               []string        // SQL expressions of type text
	placed                              []placed        // columns that are sent as headers
	texts                               map[string]bool // of these expressions those that are a column of type text or varchar
	untold                              map[string]bool // of extra those that samples do not tell apart, nor tell
	ignored                             []string        // columns with a name of ours whose type does not fit
	filter                              string          // the SQL condition of the rows that the view takes, of those in any state
	pendingIndex, keyIndex, failedIndex bool
	filtered                            bool // the index of pending rows, in table order, holds no rows that the view does not take
	// of pending rows with available_at, by that time: they have a read of their own ([mapping.walkedPrinted])
	dueIndex     bool
	dueFiltered  bool // and holds no rows that the view does not take
	orderIndex   bool // of pending rows in table order, whatever their priority
	idIndex      bool // of all rows, by id
	inOrder      bool // the index of pending rows gives them in table order
	relayedFirst bool // and begins with relayed_at
	delete       bool
	writer       string    // an SQL expression: the transaction that inserted a row, or wrote it last
	written      bool      // the writer is told
	place        string    // an SQL expression: where the row is, null where that does not lead to it
	apart        bool      // ids are not known to be unique, and rows are told apart by more than these:
	beside       []*column // by these columns, or by their places if there are none such
	shards       int
}

var (
	idTypes      = []uint32{oidUUID, oidInt8, oidInt4, oidInt2, oidText, oidVarchar}
	payloadTypes = []uint32{oidJSONB, oidJSON, oidText, oidVarchar, oidBytea, oidXML}
	textTypes    = []uint32{oidText, oidVarchar, oidBpchar}
	jsonTypes    = []uint32{oidJSONB, oidJSON}
	txidTypes    = []uint32{oidXID8}
	timeTypes    = []uint32{oidTimestamp, oidTimestamptz}
	intTypes     = []uint32{oidInt2, oidInt4, oidInt8}
	plainTypes   = append([]uint32{oidUUID, oidDate, oidTimestamp, oidTimestamptz}, intTypes...) // of which a value has one text
	unordered    = []uint32{oidJSON, oidJSONB, oidXML, oidBool}
)

const (
	// rowWriter is the system column with the transaction that wrote a row last.
	rowWriter = "xmin"
	// longAgo is the number of a transaction that ended before all others.
	longAgo = "'2'::xid"
)

// inserter is the expression for the transaction that inserted a row, by the column that holds it: what other destinations write into the
// row later changes its xmin, and must not let it look as if it had been committed late. A number that is yet to be given is another
// server's, of rows that were restored from a dump for example.
func inserter(txid *column, otherwise string) string {
	return fmt.Sprintf("(case when %[1]s < (select pg_snapshot_xmax(pg_current_snapshot())) then %[1]s::xid else %[2]s end)",
		sql.Quote(txid.name), otherwise)
}

// mapColumns finds the part of each column for a view, and checks types and rights. With any problem there is no
// mapping.
func mapColumns(r *relation, config Config, view View) (*mapping, []*SetupError) {
	m := &mapping{delete: config.Delete, writer: rowWriter, written: r.writers, place: "ctid", texts: map[string]bool{},
		untold: map[string]bool{}, shards: max(config.Shards, 1)}
	if !r.writers { // with rights on single columns only: each row counts as written long ago
		m.writer, m.place = longAgo, noPlace
	}
	if r.kind == "p" { // each partition has the same places
		m.place = noPlace
	}
	p := parts{relation: r, view: view, names: config.Columns, preferred: config.Preferred, mapping: m}
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
	if m.txid = p.optional("txid", txidTypes); m.txid != nil {
		m.writer, m.written = inserter(m.txid, m.writer), true
	}
	m.order = p.order()
	p.key(config.Key)
	p.fromOrigin(config)
	if m.topic != nil {
		m.topicText = p.text(m.topic)
	}
	p.extra(config.Extra, config.Headers)
	if config.Encoded {
		p.encoded()
	}
	p.place(config.Headers)
	if !config.Looks {
		p.rights()
		if view.Expires {
			p.dated()
		}
	}
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	m.apart = r.writers && !r.uniqueBy(m.id)
	if m.apart {
		m.beside = r.uniqueWith(m.id)
	}
	if m.apart && m.beside == nil && view.written(config) {
		return nil, []*SetupError{problem(checkTable,
			"let a unique index hold "+m.id.name+", alone or with others, and all of its columns be not null; or keep the destination's state in "+
				"the columns of the table",
			"destination %s has columns of its own, and no unique index of table %s tells its rows apart: each mark of another destination would "+
				"move a row, which would then be published again here",
			view.Name, p.table())}
	}
	if m.apart || m.origin != nil {
		m.place = noPlace // it is in the identity, or does not tell that the row is as it was read
	}
	m.filter = view.condition(m.topic)
	m.chooseIndexes(r)
	if (config.BlockFailed || view.BlockFailed) && m.failed != nil && m.key != noKey && !m.failedIndex {
		return nil, []*SetupError{problem(checkTable,
			fmt.Sprintf("create one (create index concurrently on %s (%s) where %s is not null), or set OUTBOX_ON_FAILED=continue",
				p.table(), sql.Quote(m.failed.name), sql.Quote(m.failed.name)),
			"OUTBOX_ON_FAILED=block asks for the failed rows every second, and table %s has no index of them", p.table())}
	}
	return m, nil
}

// sampled are the columns of a sample under names of their own, for a subquery, then what is selected of that, and by what
// it is grouped.
func (m *mapping) sampled() (columns, selected, groups string) {
	inserted := "null::timestamptz"
	if m.inserted != nil {
		inserted = sql.Quote(m.inserted.name)
	}
	columns = sql.Quote(m.topic.name) + "::text as topic, " + inserted + " as inserted"
	selected, groups = "topic, min(inserted), max(inserted)", "topic"
	for i, expression := range m.extra {
		if m.untold[expression] {
			expression = "null::text"
		}
		columns += fmt.Sprintf(", %s as extra%d", expression, i)
		selected += fmt.Sprintf(", extra%d", i)
		groups += fmt.Sprintf(", extra%d", i)
	}
	return columns, selected, groups
}

// identity is the expression that no two rows have in common at the same time, and its type. Where ids are not known to be unique,
// a row is also told by the columns that are unique together with the id. If there are none, it is told by the table that it is in, a
// partition for example, and by its place there. Such a row is taken for another one when somebody has changed it. What has failed or been
// relayed elsewhere is told by the time of that too, so that nothing is written for another time than the one that was read.
// here is what has to stand before "identity = any ($1)" for the rows to be found quickly. prefix stands before each column.
func (m *mapping) identity(prefix, idType string) (expression, typ, here string) {
	id := prefix + sql.Quote(m.id.name)
	var parts []string
	if m.apart && m.beside == nil {
		parts = []string{prefix + "ctid::text", prefix + "tableoid::text"}
	}
	for _, c := range m.beside {
		parts = append(parts, word(prefix, c))
	}
	if m.origin != nil {
		parts = append(parts, word(prefix, m.order))
	}
	if parts == nil {
		return id, idType, ""
	}
	here = fmt.Sprintf("%s = any (array(select regexp_replace(i, '^([^ ]* ){%d}', '')::%s from unnest($1::text[]) i)) and ", id, len(parts),
		idType)
	if m.apart && m.beside == nil {
		here = prefix + "ctid = any (array(select split_part(i, ' ', 1)::tid from unnest($1::text[]) i)) and "
	}
	return "(" + strings.Join(append(parts, "coalesce("+id+"::text, '')"), " || ' ' || ") + ")", "text", here
}

// compound reports whether a row's identity is another one than its id.
func (m *mapping) compound() bool { return m.apart || m.origin != nil }

// word is a column's value as text without a blank.
func word(prefix string, c *column) string {
	return "translate(" + prefix + sql.Quote(c.name) + "::text, ' ', '_')"
}

// shard is the expression of a row's shard. Every replica must compute the same.
func (m *mapping) shard() string {
	if m.shards == 1 {
		return "0"
	}
	return fmt.Sprintf("(hashtext(coalesce(%s, %s::text)) & 2147483647) %% %d", m.key, sql.Quote(m.id.name), m.shards)
}

// pending is the condition of rows that are neither relayed nor failed, but have failed or been relayed at the origin if there is one,
// and its parts as PostgreSQL prints them in an index's predicate.
func (m *mapping) pending() (condition string, printed []string) {
	for _, c := range []*column{m.relayed, m.failed} {
		if c != nil {
			printed = append(printed, sql.Quote(c.name)+" IS NULL", c.name+" IS NULL")
			condition += " and " + sql.Quote(c.name) + " is null"
		}
	}
	if m.origin != nil {
		condition += " and " + sql.Quote(m.order.name) + " is not null"
		printed = append(printed, sql.Quote(m.order.name)+" IS NOT NULL", m.order.name+" IS NOT NULL")
		if c := m.origin.without; c != nil {
			condition += " and " + sql.Quote(c.name) + " is null"
			printed = append(printed, sql.Quote(c.name)+" IS NULL", c.name+" IS NULL")
		}
	}
	if condition == "" {
		return "true", nil
	}
	return strings.TrimPrefix(condition, " and "), printed
}

// pendingByID is the condition of pending where ids are given, by which the rows are to be found if an index allows it.
func (m *mapping) pendingByID() string {
	if !m.idIndex {
		condition, _ := m.pending()
		return condition
	}
	conditions := []string{"true"}
	without := []*column{m.relayed, m.failed}
	if m.origin != nil {
		without = append(without, m.origin.without)
		conditions = append(conditions, "num_nonnulls("+sql.Quote(m.order.name)+") = 1")
	}
	for _, c := range without {
		if c != nil {
			conditions = append(conditions, isNull(sql.Quote(c.name)))
		}
	}
	return strings.Join(conditions, " and ")
}

// chooseIndexes finds which reads an index makes cheap.
func (m *mapping) chooseIndexes(r *relation) {
	m.indexDue(r)
	pending, taken := m.walkedPrinted(r), r.normal[m.filter]
	orderFirst := false
	m.filtered = m.filter == pattern.Always
	for _, i := range r.indexes {
		m.idIndex = m.idIndex || i.starts(m.id.name) && i.usableFor()
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
			m.filtered = m.filtered || i.holds(taken)
		case m.relayed != nil && i.starts(m.relayed.name, m.order.name):
			m.pendingIndex, m.relayedFirst = true, true
		case m.keyColumn != "" && i.starts(m.keyColumn) && partial:
			m.keyIndex = true
		case m.relayed != nil && (partial || i.starts(m.relayed.name)):
			m.pendingIndex = true
			m.filtered = m.filtered || i.holds(taken)
		}
	}
	m.orderIndex = orderFirst || m.relayedFirst
	m.inOrder = m.orderIndex && m.rank == nil
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
	key := m.key
	switch {
	case m.keyColumn != "":
		key = "column " + m.keyColumn
	case key == noKey:
		key = "none"
	}
	found := []any{"id", name(m.id), "order", name(m.order), "payload", name(m.payload), "key", key,
		"headers", name(m.headers), "attempt", name(m.attempt), "failed_at", name(m.failed),
		"available_at", name(m.available), "priority", name(m.rank),
		"pending_index", m.pendingIndex}
	if len(m.ignored) > 0 {
		found = append(found, "ignored", m.ignored)
	}
	return found
}
