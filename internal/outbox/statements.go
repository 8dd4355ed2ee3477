package outbox

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/sql"
)

// prepare renders the statements, once, when the table is opened.
func (t *Table) prepare(table sql.Table) {
	m := t.mapping
	d, c := t.describe(table)
	t.limits = sql.Text("limits.sql", nil)
	t.limitsGeneric = strings.Replace(t.limits, "force_custom_plan", "force_generic_plan", 1)
	due := d.with("due", c.due)
	t.drainEnd, t.drainLeft = due.text("drain_end.sql"), due.text("drain_left.sql")
	t.prepareSettling(d)
	if m.pendingIndex {
		sampled, grouped, groups := m.sampled()
		due = due.with("sampled", sampled, "grouped", grouped, "groups", groups)
		t.sampleTopics = due.text("sample_topics.sql")
	}
	if m.dueIndex {
		t.prepareDue(due.with("due", d["due"]))
	}
	t.prepareAsks(d.with("arrived_filter", c.arrived))
}

// prepareSettling renders the statements that write what became of rows.
func (t *Table) prepareSettling(d description) {
	m := t.mapping
	settle, lock := "delete", "update"
	if !m.delete {
		settle, lock = "mark", "no key update"
		d = d.with("unmarked", isNull(d["relayed_at"]), "marks", d["relayed_at"]+" = "+d["relayed_now"])
		t.marks = d
	}
	asRead := " and (%[1]s::xid[] is null or xmin = any (%[1]s))"
	if !t.relation.writers { // the role may not read which version a row is
		asRead = " and %[1]s::xid[] is null"
	}
	d = d.with("partitions", t.relation.partitionMark(), "version", t.version(),
		"as_read", fmt.Sprintf(asRead, "$2"), "as_read_here", fmt.Sprintf(asRead, "$3"))
	if t.marks != nil {
		t.marks = d
	}
	t.settle, t.settleFree = d.text(settle+".sql"), d.text(settle+"_free.sql")
	if m.place != noPlace {
		t.settleHere = d.text(settle + "_here.sql")
	}
	t.unsettled = d.text("unsettled.sql")
	t.lockFree = d.with("lock", lock, "wait", "skip locked").text("lock.sql")
	t.lockAll = d.with("lock", lock, "wait", "nowait").text("lock.sql")
	if set, unchanged := t.refusal(); set != "" {
		refusal := d.with("refusal", set, "unchanged", unchanged)
		t.refuse, t.unrefused = refusal.text("refuse.sql"), refusal.text("unrefused.sql")
	}
}

// A description holds the quoted identifiers and the expressions from which statements are rendered. It is not changed
// once it is made.
type description map[string]string

// with returns the description with additional values, given as alternating names and values.
func (d description) with(pairs ...string) description {
	d = maps.Clone(d)
	for i := 0; i < len(pairs); i += 2 {
		d[pairs[i]] = pairs[i+1]
	}
	return d
}

// text renders a statement.
func (d description) text(file string) string { return sql.Text(file, d) }

// clauses are parts of the description from which further descriptions are made.
type clauses struct {
	filtered string // the condition for the rows of the destination
	arrived  string // the condition that a row's time has come, with filtered
	due      string // the condition for rows that are due: pending and arrived
}

var orderTypes = map[uint32]string{
	pgtype.Int2OID: "smallint", pgtype.Int4OID: "integer", pgtype.Int8OID: "bigint",
	pgtype.TimestampOID: "timestamp", pgtype.TimestamptzOID: "timestamptz",
}

// idType is the type of the elements of an array of ids.
func (t *Table) idType() string {
	switch t.idOID {
	case pgtype.UUIDOID:
		return "uuid"
	case pgtype.TextOID:
		return "text"
	}
	return orderTypes[t.idOID]
}

// describe makes the description that all statements share.
func (t *Table) describe(table sql.Table) (description, clauses) {
	m := t.mapping
	pending, _ := m.pending()
	filtered := ""
	if m.filter != pattern.Always {
		filtered = " and " + m.filter
	}
	arrived, ordered, scheduled := filtered, filtered, ""
	if m.available != nil {
		available := m.available.Name
		arrived = " and (" + available + " is null or " + available + " <= " + now(m.available) + ")" + filtered
		scheduled = pending + " and " + available + " > " + now(m.available) + filtered
		if ordered = arrived; m.dueIndex {
			ordered = " and " + available + " is null" + filtered
		}
	}
	mark := t.relation.partitionMark()
	pending, ordered, due := mark+pending+filtered, mark+pending+ordered, mark+pending+arrived
	idType := t.idType()
	names := description{
		"table": table.Quoted(), "id": m.id.Name, "id_type": idType, "order": m.order.Name, "key": m.key,
		"pending": pending, "due": ordered, "scheduled": scheduled, "failed": "false",
		"ordering": m.ordering(), "relayed_now": now(m.relayed),
		"refusal": "", "unchanged": "", "relayed_at": "", "unmarked": "true",
		"inserted_at": "", "inserted_now": now(m.since()), "writer": m.writer,
	}
	names["identity"], names["identity_type"], names["here"] = m.identity("", idType)
	names["t_identity"], _, names["t_here"] = m.identity("t.", idType)
	names["here"], names["t_here"] = mark+names["here"], mark+names["t_here"]
	if m.relayed != nil {
		names["relayed_at"] = m.relayed.Name
	}
	if m.inserted != nil {
		names["inserted_at"] = m.inserted.Name
	}
	if m.failed != nil {
		failed := m.failed.Name + " is not null"
		if m.relayed != nil { // both are set in a discarded row
			failed += " and " + m.relayed.Name + " is null"
		}
		names["failed"] = failed + filtered
	}
	t.dueNames(names, filtered)
	names["ordering_back"], names["nulls_last"] = names["order"]+" desc", ""
	if !m.order.NotNull {
		names["nulls_last"] = " nulls last" // an order that the usual indexes do not give
	}
	if m.relayedFirst {
		names["ordering_back"] = m.relayed.Name + " desc, " + names["ordering_back"]
	}
	return names, clauses{filtered: filtered, arrived: arrived, due: due}
}

// now returns the expression for the time of the statement in the type of a column. Columns without a time zone hold
// UTC, whatever the session's zone is.
func now(c *Column) string {
	if c != nil && c.oid == pgtype.TimestampOID {
		return "(now() at time zone 'UTC')"
	}
	return "now()"
}

// since returns the column with the time since which available rows could be relayed, nil if the table does not hold
// it.
func (m *mapping) since() *Column {
	if m.origin != nil {
		return m.order
	}
	return m.inserted
}

// dueAt is the expression for the time since which a due row could be relayed, in the type of [mapping.since].
func dueAt(m *mapping) string {
	inserted := m.since().Name
	if m.available == nil {
		return inserted
	}
	available := m.available.Name
	if m.available.oid != m.inserted.oid { // one of the two columns has no time zone, and holds UTC
		available = "(" + available + " at time zone 'UTC')"
	}
	return "greatest(" + inserted + ", " + available + ")"
}

// rank is the expression that sorts larger priorities first. It is ~n, which is -n-1, because -n overflows for the
// smallest bigint: one such row would make every read fail.
func rank(m *mapping) string { return "(~coalesce(" + m.rank.Name + ", 0)::bigint)" }

// lateInterval is how long before the database's present time a read of recent rows begins at the latest: rows that
// commit within this time after they were written are found at the next read.
const (
	lateInterval = "5 seconds"
	// Late is lateInterval as a duration.
	Late = 5 * time.Second
)

// columns returns what every read selects, in the order that decode expects, with bounds on its size.
func (t *Table) columns(b bounds) string {
	m := t.mapping
	or := func(c *Column, absent string, expression func(string) string) string {
		if c == nil {
			return absent
		}
		return expression(c.Name)
	}
	plain := func(name string) string { return name }
	bounded := func(expression string) string { return b.text(expression, m.texts[expression]) }
	waited := "null::bigint"
	if m.lastError != nil && m.updated != nil {
		waited = fmt.Sprintf("case when %[1]s is not null and isfinite(%[3]s) then (extract(epoch from %[2]s - %[3]s) * 1000000)::bigint end",
			m.lastError.Name, now(m.updated), m.updated.Name)
	}
	identity := "null::text" // the id is enough
	if m.compound() {
		identity, _, _ = m.identity("", "")
	}
	columns := []string{
		m.id.Name,
		m.order.Name,
		or(m.rank, "null::bigint", func(string) string { return rank(m) }),
		bounded(m.topicText),
		b.value(m.payload),
		b.value(m.headers),
		bounded(m.key),
		or(m.attempt, "1::bigint", func(name string) string { return "coalesce(" + name + ", 1)::bigint" }),
		or(m.inserted, "null::timestamptz", plain),
		or(m.available, "null::timestamptz", plain),
		waited,
		m.shard(),
		m.writer,
		m.place,
		identity,
		b.rest(m.payload),
		b.rest(m.headers),
	}
	for _, expression := range m.extra {
		columns = append(columns, bounded(expression))
	}
	for _, p := range m.placed {
		columns = append(columns, bounded(p.expression))
	}
	return strings.Join(columns, ", ")
}

// ordering is the order in which rows are read, larger priorities first, phrased so that the planner can use the index
// of pending rows.
func (m *mapping) ordering() string {
	switch {
	case m.rank != nil:
		return rank(m) + ", " + m.placeOrdering()
	case m.relayedFirst:
		return m.relayed.Name + ", " + m.placeOrdering() // null in every row read
	}
	return m.placeOrdering()
}

// placeOrdering is table order without the rows' priorities.
func (m *mapping) placeOrdering() string {
	if m.order == m.id {
		return m.id.Name
	}
	return m.order.Name + ", " + m.id.Name
}

// refusal returns the assignments for a refused attempt, and the condition that the row is unchanged since it was read.
// Both are empty if the table keeps nothing about attempts.
func (t *Table) refusal() (set, unchanged string) {
	m := t.mapping
	var assignments []string
	conditions := []string{"true"}
	if m.attempt != nil {
		name := m.attempt.Name
		assignments = append(assignments, name+" = r.next_attempt")
		conditions = append(conditions, "coalesce(t."+name+", 1) = r.attempt")
	}
	if m.lastError != nil {
		assignments = append(assignments, m.lastError.Name+" = r.error")
	}
	if m.updated != nil {
		assignments = append(assignments, m.updated.Name+" = "+now(m.updated))
	}
	if m.failed != nil {
		name := m.failed.Name
		assignments = append(assignments, fmt.Sprintf("%s = case when r.failed then %s end", name, now(m.failed)))
		assignments = append(assignments, t.forget("r.failed")...)
		conditions = append(conditions, isNull("t."+name))
	}
	if m.relayed != nil {
		conditions = append(conditions, isNull("t."+m.relayed.Name))
	}
	if t.relation.writers {
		conditions = append(conditions, "(r.version = '0'::xid or t.xmin = r.version)")
	}
	return strings.Join(assignments, ", "), strings.Join(conditions, " and ")
}

// isNull is the condition in a form for which no index is chosen. If statistics say that few rows are pending, an index
// of pending rows seems better than the given ids, and each statement would go through the whole backlog.
func isNull(columns ...string) string {
	return fmt.Sprintf("num_nulls(%s) = %d", strings.Join(columns, ", "), len(columns))
}
