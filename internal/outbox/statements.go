package outbox

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/sql"
)

// prepare makes the statements.
func (t *Table) prepare(table sql.Table) {
	m := t.mapping
	pending, _ := m.pending()
	filtered := ""
	if m.filter != pattern.Always {
		filtered = " and " + m.filter
	}
	arrived, walked, scheduled := filtered, filtered, ""
	if m.available != nil {
		available := sql.Quote(m.available.name)
		arrived = " and (" + available + " is null or " + available + " <= " + now(m.available) + ")" + filtered
		scheduled = pending + " and " + available + " > " + now(m.available) + filtered
		if walked = arrived; m.dueIndex {
			walked = " and " + available + " is null" + filtered
		}
	}
	pending, walked, due := pending+filtered, pending+walked, pending+arrived
	idType := map[uint32]string{oidUUID: "uuid", oidInt2: "smallint", oidInt4: "integer", oidInt8: "bigint", oidText: "text"}[t.idOID]
	names := map[string]string{
		"table": table.Quoted(), "id": sql.Quote(m.id.name), "id_type": idType, "order": sql.Quote(m.order.name), "key": m.key,
		"pending": pending, "due": walked, "scheduled": scheduled, "not_null": "", "failed": "false",
		"ordering": t.ordering(), "bound": "$2", "from_bound": "true", "relayed_now": now(m.relayed),
		"refusal": "", "unchanged": "", "relayed_at": "", "unmarked": "true",
		"inserted_at": "", "inserted_now": now(m.since()), "writer": m.writer,
	}
	names["identity"], names["identity_type"], names["here"] = m.identity("", idType)
	names["t_identity"], _, names["t_here"] = m.identity("t.", idType)
	position, parameters := []string{names["order"], names["id"]}, []string{"$2", "$3"}
	if m.order == m.id {
		position, parameters = position[1:], parameters[:1]
	}
	place, places := strings.Join(position, ", "), strings.Join(parameters, ", ")
	if m.rank != nil {
		position = append([]string{rank(m)}, position...)
		parameters = append([]string{fmt.Sprintf("$%d::bigint", len(parameters)+2)}, parameters...)
	}
	names["position"], names["position_parameters"] = strings.Join(position, ", "), strings.Join(parameters, ", ")
	if !m.order.notNull {
		names["not_null"] = " and " + names["order"] + " is not null"
	}
	orderTypes := map[uint32]string{oidInt2: "smallint", oidInt4: "integer", oidInt8: "bigint",
		oidTimestamp: "timestamp", oidTimestamptz: "timestamptz"}
	if orderType := orderTypes[m.order.oid]; t.Ordinal() {
		names["bound"] = "$2::" + orderType
		names["from_bound"] = "($3::" + orderType + " is null or " + names["order"] + " >= $3)"
	}
	if t.Timed() {
		names["bound"] = "least(" + names["bound"] + ", " + now(m.order) + " - interval '" + lateInterval + "')"
	}
	if m.relayed != nil {
		names["relayed_at"] = sql.Quote(m.relayed.name)
	}
	if m.inserted != nil {
		names["inserted_at"] = sql.Quote(m.inserted.name)
	}
	if m.failed != nil {
		failed := sql.Quote(m.failed.name) + " is not null"
		if m.relayed != nil { // in a row that was discarded both are set
			failed += " and " + sql.Quote(m.relayed.name) + " is null"
		}
		names["failed"] = failed + filtered
	}
	t.dueNames(names, filtered)
	all := func(int) string { return "" }
	t.all, t.some = t.walks(names, all), t.walks(names, t.owned)
	if m.rank != nil && m.orderIndex {
		unranked := maps.Clone(names)
		unranked["position"], unranked["position_parameters"], unranked["ordering"] = place, places, t.unrankedOrdering()
		t.unranked, t.unrankedSome = t.walks(unranked, all), t.walks(unranked, t.owned)
	}
	names["columns"], names["due"] = t.columns(t.limited(3)), m.pendingByID()+arrived
	t.readIDs = sql.Text("read_ids.sql", names)
	names["columns"] = t.columns(t.whole(3))
	t.readWhole = sql.Text("read_ids.sql", names)
	names["due"] = walked
	keys := 2 // parameters
	if t.Ordinal() {
		keys++
	}
	names["columns"] = t.columns(t.limited(keys + 1))
	t.readKeys = sql.Text("read_keys.sql", names)
	names["ordering_back"], names["nulls_last"] = names["order"]+" desc", ""
	if !m.order.notNull {
		names["nulls_last"] = " nulls last" // which no usual index gives
	}
	if m.relayedFirst {
		names["ordering_back"] = sql.Quote(m.relayed.name) + " desc, " + names["ordering_back"]
	}
	t.limits, t.snapshot, t.horizon = sql.Text("limits.sql", nil), sql.Text("snapshot.sql", nil), sql.Text("horizon.sql", names)
	names["due"] = due
	t.drainEnd, t.drainLeft = sql.Text("drain_end.sql", names), sql.Text("drain_left.sql", names)
	settle := "mark"
	if m.delete {
		settle = "delete"
	} else {
		names["unmarked"], names["marks"] = isNull(names["relayed_at"]), names["relayed_at"]+" = "+names["relayed_now"]
		t.names = maps.Clone(names)
	}
	t.settle, t.settleFree = sql.Text(settle+".sql", names), sql.Text(settle+"_free.sql", names)
	if m.place != noPlace {
		t.settleHere = sql.Text(settle+"_here.sql", names)
	}
	t.unsettled = sql.Text("unsettled.sql", names)
	names["lock"], names["wait"] = "no key update", "skip locked"
	if m.delete {
		names["lock"] = "update"
	}
	t.lockFree = sql.Text("lock.sql", names)
	names["wait"] = "nowait"
	t.lockAll = sql.Text("lock.sql", names)
	names["refusal"], names["unchanged"] = t.refusal()
	if names["refusal"] != "" {
		t.refuse, t.unrefused = sql.Text("refuse.sql", names), sql.Text("unrefused.sql", names)
	}
	if m.pendingIndex {
		names["sampled"], names["grouped"], names["groups"] = m.sampled()
		t.sampleTopics = sql.Text("sample_topics.sql", names)
	}
	if m.filtered || t.view.Columns != nil {
		t.gauges(names)
	} else {
		t.gaugesTaken(names, filtered)
	}
	if m.dueIndex {
		names["due"] = walked
		t.prepareDue(names, filtered)
	}
	if m.failed != nil {
		names["failed_at"], names["failed_type"] = sql.Quote(m.failed.name), orderTypes[m.failed.oid]
		names["topic"], names["owned"] = sql.Quote(m.topic.name), ""
		t.failedAll = sql.Text("read_failed.sql", names)
		names["owned"] = t.owned(4)
		t.failedSome = sql.Text("read_failed.sql", names)
	}
}

// now returns the expression for the time of the statement in the type of a column. Columns without
// a time zone hold UTC whatever the session's zone is.
func now(c *column) string {
	if c != nil && c.oid == oidTimestamp {
		return "(now() at time zone 'UTC')"
	}
	return "now()"
}

// since is the column with the time since which rows that are available could be relayed, nil where the table does not say.
func (m *mapping) since() *column {
	if m.origin != nil {
		return m.order
	}
	return m.inserted
}

// dueAt is the expression for the time since which a row that is due could be relayed, of the type of [mapping.since].
func dueAt(m *mapping) string {
	inserted := sql.Quote(m.since().name)
	if m.available == nil {
		return inserted
	}
	available := sql.Quote(m.available.name)
	if m.available.oid != m.inserted.oid { // one of them has no time zone, and holds UTC
		available = "(" + available + " at time zone 'UTC')"
	}
	return "greatest(" + inserted + ", " + available + ")"
}

// rank is the expression that sorts larger priorities first.
func rank(m *mapping) string { return "(-coalesce(" + sql.Quote(m.rank.name) + ", 0)::bigint)" }

// lateInterval is how far behind the database's clock a read of recent rows begins at the latest:
// rows that commit no later than this after they were written are found at the next read.
const (
	lateInterval = "5 seconds"
	// Late is lateInterval as a duration.
	Late = 5 * time.Second
)

// owned is the condition on a row's shard, of which the parameter with the given number is a list.
func (t *Table) owned(parameter int) string {
	return fmt.Sprintf(" and %s = any ($%d::integer[])", t.mapping.shard(), parameter)
}

// walks are the reads in table order.
type walks struct{ first, after, recent, nulls, glance, due string }

// walks makes the reads in table order. Behind their own parameters comes what a row may take, and then the shards, for
// which owned gives the condition.
func (t *Table) walks(names map[string]string, owned func(parameter int) string) walks {
	text := func(file string, parameters int) string {
		names["columns"], names["owned"] = t.columns(t.limited(parameters+1)), owned(parameters+2)
		return sql.Text(file, names)
	}
	w := walks{first: text("read_first.sql", 1), after: text("read_after.sql", 2+strings.Count(names["position_parameters"], ","))}
	if t.Ordinal() {
		w.recent = text("read_recent.sql", 3)
	}
	if !t.mapping.order.notNull {
		w.nulls = text("read_nulls.sql", 2)
	}
	names["owned"] = owned(1)
	w.glance = sql.Text("glance.sql", names)
	if t.mapping.dueIndex {
		w.glance = sql.Text("glance_due.sql", names)
		w.due = text("read_due.sql", 2+strings.Count(names["due_parameters"], "$"))
	}
	return w
}

// columns is what every read selects, in the order that decode expects, with bounds on what it takes.
func (t *Table) columns(b bounds) string {
	m := t.mapping
	or := func(c *column, absent string, expression func(string) string) string {
		if c == nil {
			return absent
		}
		return expression(sql.Quote(c.name))
	}
	plain := func(name string) string { return name }
	bounded := func(expression string) string { return b.text(expression, m.texts[expression]) }
	waited := "null::bigint"
	if m.lastError != nil && m.updated != nil {
		waited = fmt.Sprintf("case when %[1]s is not null and isfinite(%[3]s) then (extract(epoch from %[2]s - %[3]s) * 1000000)::bigint end",
			sql.Quote(m.lastError.name), now(m.updated), sql.Quote(m.updated.name))
	}
	identity := "null::text" // the id will do
	if m.compound() {
		identity, _, _ = m.identity("", "")
	}
	columns := []string{
		sql.Quote(m.id.name),
		sql.Quote(m.order.name),
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

// ordering is the order in which rows are read, larger priorities first, in the words that let the planner use the index of pending rows.
func (t *Table) ordering() string {
	if t.mapping.rank != nil {
		return rank(t.mapping) + ", " + t.placeOrdering()
	}
	return t.unrankedOrdering()
}

// unrankedOrdering is the table's order, whatever the rows' priorities.
func (t *Table) unrankedOrdering() string {
	if t.mapping.relayedFirst {
		return sql.Quote(t.mapping.relayed.name) + ", " + t.placeOrdering() // null in every row read
	}
	return t.placeOrdering()
}

func (t *Table) placeOrdering() string {
	m := t.mapping
	var terms []string
	if m.order != m.id {
		terms = append(terms, sql.Quote(m.order.name))
	}
	return strings.Join(append(terms, sql.Quote(m.id.name)), ", ")
}

// refusal returns the assignments of a refused try and the condition that the row is as it was read.
// They are empty when the table keeps nothing of it.
func (t *Table) refusal() (set, unchanged string) {
	m := t.mapping
	var assignments []string
	conditions := []string{"true"}
	if m.attempt != nil {
		name := sql.Quote(m.attempt.name)
		assignments = append(assignments, name+" = r.next_attempt")
		conditions = append(conditions, "coalesce(t."+name+", 1) = r.attempt")
	}
	if m.lastError != nil {
		assignments = append(assignments, sql.Quote(m.lastError.name)+" = r.error")
	}
	if m.updated != nil {
		assignments = append(assignments, sql.Quote(m.updated.name)+" = "+now(m.updated))
	}
	if m.failed != nil {
		name := sql.Quote(m.failed.name)
		assignments = append(assignments, fmt.Sprintf("%s = case when r.failed then %s end", name, now(m.failed)))
		assignments = append(assignments, t.forget("r.failed")...)
		conditions = append(conditions, isNull("t."+name))
	}
	if m.relayed != nil {
		conditions = append(conditions, isNull("t."+sql.Quote(m.relayed.name)))
	}
	return strings.Join(assignments, ", "), strings.Join(conditions, " and ")
}

// isNull is the condition in a form that lets no index be chosen for it: where statistics say that few rows are pending, an index
// of these seems better than the ids that are given, and each statement would go through the whole backlog.
func isNull(columns ...string) string {
	return fmt.Sprintf("num_nulls(%s) = %d", strings.Join(columns, ", "), len(columns))
}
