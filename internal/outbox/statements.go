package outbox

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/sql"
)

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

// text renders a statement, with values for names that are its own, given as in [description.with].
func (d description) text(file string, pairs ...string) string {
	if len(pairs) > 0 {
		d = d.with(pairs...)
	}
	return sql.Text(file, d)
}

var orderTypes = map[uint32]string{
	pgtype.Int2OID: "smallint", pgtype.Int4OID: "integer", pgtype.Int8OID: "bigint",
	pgtype.TimestampOID: "timestamp", pgtype.TimestamptzOID: "timestamptz",
}

// IDType is the type of the elements of an array of ids.
func (t *Table) IDType() string {
	return cmp.Or(orderTypes[t.idOID], map[uint32]string{pgtype.UUIDOID: "uuid", pgtype.TextOID: "text"}[t.idOID])
}

// describe makes the description that all statements share.
func (t *Table) describe() description {
	m := t.mapping
	filtered := ""
	if m.Taken != pattern.Always {
		filtered = " and " + m.Taken
	}
	mark, pending := partitionMark, m.Pending
	// A column that the table lacks is null.
	available, now := m.Available.Or("null::timestamptz"), m.Available.Now()
	d := description{
		"table": t.Quoted(), "partitions": mark, "id": m.ID.Name, "id_type": t.IDType(), "order": m.Order.Name,
		"key":     m.Key,
		"pending": mark + pending + filtered, "filtered": filtered, "failed": "false",
		"ordering": m.ordering(), "latest": m.Order.Name + " desc", "nulls_last": "",
		"hash": m.keyHash(), "shard": m.shard(), "version": rowWriter, "place": m.place, "writer": m.writer(),
		"topic": m.Topic.Name, "order_type": m.Order.Type, "payload": m.Payload.text(), "headers": m.Headers.text(),
		"inserted_at": m.Inserted.Or("null::timestamptz"), "inserted_time": m.Inserted.Time(),
		"due_at": m.dueAt(Column.Time), "available": available, "available_now": now,
		"relayed_at": m.Relayed.Name, "relayed_time": m.Relayed.Time(),
		"failed_at": m.Failed.Name, "failed_time": m.Failed.Time(),
		"attempt": m.Attempt.Or("null"), "last_error": m.LastError.Or("null"),
		"updated_at": m.Updated.Or("null::timestamptz"), "updated_now": m.Updated.Now(),
		"txid":     m.Txid.Or("null::xid8"),
		"unmarked": pattern.Always, "lock": "update", "write": "delete from " + t.Quoted(),
		"arrived_filter": " and (" + available + " is null or " + available + " <= " + now + ")" + filtered,
		"scheduled":      pending + " and " + available + " > " + now + filtered,
		"upcoming":       mark + pending + " and " + available + " > " + now,
		"arrived":        "false",
	}
	d["identity"], d["identity_type"], d["here"] = m.identity("", d["id_type"])
	d["t_identity"], _, d["t_here"] = m.identity("t.", d["id_type"])
	// A command may change a row at the origin and at this destination, one after the other, so the time of the failure
	// or of the relaying there is not part of the row's identity.
	alone := *m
	alone.origin = nil
	d["row"], d["row_type"], d["row_here"] = alone.identity("", d["id_type"])
	d["here"], d["t_here"] = mark+d["here"], mark+d["t_here"]
	d["due"] = mark + pending + d["arrived_filter"]
	// Rows with available_at have conditions of their own where there is an index of due times: with one condition for
	// both kinds of rows, the planner could not use the two indexes.
	if m.dueIndex {
		d["due"] = mark + pending + " and " + available + " is null" + filtered
		d["arrived"] = mark + pending + " and " + available + " <= " + now + filtered
	}
	if m.Failed.Has() {
		d["failed"] = m.IsFailed + filtered
	}
	if !m.Order.NotNull {
		d["nulls_last"] = " nulls last" // an order that the usual indexes do not give
	}
	if m.relayedFirst {
		d["latest"] = m.Relayed.Name + " desc, " + d["latest"]
	}
	if !m.config.Delete {
		d["unmarked"], d["lock"] = isNull(m.Relayed.Name), "no key update"
		d["write"] = "update " + t.Quoted() + " set " + m.Relayed.Name + " = " + m.Relayed.Now()
	}
	d["refusal"], d["unchanged"] = t.refusal()
	return d
}

// since returns the column with the time since which available rows could be relayed, if the table holds it.
func (m *mapping) since() Column {
	if m.origin != nil {
		return m.Order
	}
	return m.Inserted
}

// rank is the expression that sorts larger priorities first. It is ~n, which is -n-1, because -n overflows for the
// smallest bigint: one such row would make every read fail.
func rank(m *mapping) string { return "(~coalesce(" + m.Rank.Name + ", 0)::bigint)" }

// rankFirst begins the columns of an order in which larger priorities come first; it is empty without priorities.
func (m *mapping) rankFirst() string {
	if !m.Rank.Has() {
		return ""
	}
	return rank(m) + ", "
}

// Late is how long before the database's present time a read of recent rows begins at the latest: rows that commit
// within this time after they were written are found at the next read.
const Late = 5 * time.Second

// columns returns what every read selects, in the order that decode expects, with bounds on its size. first is what
// comes before the order value in a row's place.
func (t *Table) columns(b bounds, first string) string {
	m := t.mapping
	d := t.description.with("first", first, "topic_text", boundedText(m.Topic.text()), "key_text", boundedText(m.Key),
		"payload_small", b.value(m.Payload), "payload_large", b.rest(m.Payload),
		"headers_small", b.value(m.Headers), "headers_large", b.rest(m.Headers), "identity_text", "null::text")
	if m.compound() { // otherwise the id is enough
		d["identity_text"] = d["identity"]
	}
	texts := slices.Concat(m.extra, each(m.placed, func(p placed) string { return p.expression }))
	for i, text := range texts {
		if texts[i] = ", null::text"; b != bare {
			texts[i] = ", " + boundedText(text)
		}
	}
	return d.text("row.sql", "texts", strings.Join(texts, ""))
}

// ordering is the order in which rows are read, larger priorities first, phrased so that the planner can use the index
// of pending rows.
func (m *mapping) ordering() string {
	columns := m.position().columns()
	if m.relayedFirst && !m.Rank.Has() {
		columns = m.Relayed.Name + ", " + columns // null in every row read
	}
	return columns
}

// refusal returns the assignments for a refused attempt, and the condition that the row is unchanged since it was read.
// Both are empty if the table keeps nothing about attempts.
func (t *Table) refusal() (set, unchanged string) {
	m := t.mapping
	var assignments []string
	conditions := []string{"true"}
	if m.Attempt.Has() {
		name := m.Attempt.Name
		assignments = append(assignments, name+" = r.next_attempt")
		conditions = append(conditions, "coalesce(t."+name+", 1) = r.attempt")
	}
	if m.LastError.Has() {
		assignments = append(assignments, m.LastError.Name+" = r.error")
	}
	if m.Updated.Has() {
		assignments = append(assignments, m.Updated.Name+" = "+m.Updated.Now())
	}
	if m.Failed.Has() {
		name := m.Failed.Name
		assignments = append(assignments, fmt.Sprintf("%s = case when r.failed then %s end", name, m.Failed.Now()))
		assignments = append(assignments,
			t.unsent("%[1]s = case when r.failed then %[2]s else t.%[1]s end", Column.Has)...)
		conditions = append(conditions, isNull("t."+name))
	}
	if m.Relayed.Has() {
		conditions = append(conditions, isNull("t."+m.Relayed.Name))
	}
	conditions = append(conditions, "(r.version = '0'::xid or t.xmin = r.version)")
	return strings.Join(assignments, ", "), strings.Join(conditions, " and ")
}

// isNull is the condition in a form for which no index is chosen. If statistics say that few rows are pending, an index
// of pending rows seems better than the given ids, and each statement would go through the whole backlog.
func isNull(columns ...string) string {
	return fmt.Sprintf("num_nulls(%s) = %d", strings.Join(columns, ", "), len(columns))
}
