package outbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// asks are the statements of the engine's questions ([Query] and the following types). Those of pages have marks for
// what depends on the query: see [Table.pageStatement].
type asks struct{ tail, dueTail, sweep, keys, dueKeys, byID string }

// keyHash is the expression for the number that names a row's key, or a row without one. An index by key begins with
// it. It has the same value for every collation and type of the key, and takes eight bytes however long the key is: an
// index of the keys themselves makes inserts of keys above 2.7 kB fail, serves no text parameter where the column is a
// uuid, a number or citext, and took twice the space for keys of 60 bytes. The expression is of the key's text: citext
// and nondeterministic collations call keys equal that brokers do not.
func (m *mapping) keyHash() string {
	id := m.ID.Name + "::text"
	if !m.ID.NotNull {
		id = "coalesce(" + id + ", '')"
	}
	if m.Key == noKey {
		return "hashtextextended(" + id + ", 0)"
	}
	return "hashtextextended(coalesce(" + m.Key + `::text collate "C", ` + id + "), 0)"
}

// prepareAsks renders the statements.
func (t *Table) prepareAsks() {
	m := t.mapping
	d := t.description.with("rows", t.description["due"], "next", "null",
		"nothing", strings.Repeat(", null", atColumns-atAfter+len(t.formats())))
	place := m.position()
	page := func(d description, b bounds) string { return d.text("tail.sql", "columns", t.columns(b)) }
	t.tail = page(d, withPage)
	// A sweep looks into all partitions: it finds what no other read can find.
	t.sweep = page(d.with("rows", strings.TrimPrefix(d["rows"], partitionMark)), bare)
	t.byID = d.text("read_ids.sql", "columns", t.columns(wholeRows),
		"due", t.relation.partitionMark()+m.pendingByID()+d["arrived_filter"])

	keys := d.with("columns", t.columns(withPage), "found", "ctid", "lows", "", "low", "", "from_lows", "")
	if t.relation.Children {
		keys = keys.with("found", d["id"])
	}
	keys = keys.with("key_ordering", d["hash"]+", "+place.columns())
	const asked = `"asked keys"`
	within := fmt.Sprintf("%s >= %s.hash and %[1]s <= %[2]s.hash", d["hash"], asked)
	if t.Ordinal() {
		typ := orderTypes[m.Order.OID]
		keys = keys.with("lows", ", $5::"+typ+"[]", "low", ", low",
			"from_lows",
			fmt.Sprintf(" and %s >= ($5::%s[])[array_position($2::bigint[], %s)]", d["order"], typ, d["hash"]))
		within += fmt.Sprintf(" and %s >= %s.low", d["order"], asked)
		if !m.Rank.Has() {
			const from = "(%s, %s) >= (%s.hash, %[3]s.low) and %[1]s <= %[3]s.hash"
			within = fmt.Sprintf(from, d["hash"], d["order"], asked)
		}
	}
	t.keys = keys.text("keys_pass.sql")
	if m.keyIndex {
		t.keys = keys.text("keys.sql", "key_range", within)
	}

	if m.dueIndex { // rows that are due at a time of their own keep no order, so each is a key by itself
		byTime := []string{
			"hash", "hashtextextended(" + d["id"] + "::text, 0)", "rows", d["arrived"], "ordering", d["due_position"],
		}
		t.dueTail = page(d.with(byTime...).with("next", "("+d.text("next_due.sql")+")"), withPage)
		t.dueKeys = keys.with(byTime...).text("keys_pass.sql", "from_lows", "")
	}
}

// A position is the columns that give an order, with the types of their parameters and the places of a row's values in
// its [Position].
type position []struct {
	column, cast string
	at           int
}

// position is table order.
func (m *mapping) position() (p position) {
	if m.Rank.Has() {
		p = append(p, position{{rank(m), "::bigint", rankValue}}...)
	}
	if m.Order != m.ID {
		p = append(p, position{{m.Order.Name, "", orderValue}}...)
	}
	return append(p, position{{m.ID.Name, "", idValue}}...)
}

// duePosition is the order of rows that are read by the time at which they are due.
func (m *mapping) duePosition() position {
	p := m.position()
	if m.Order != m.ID && !m.Order.NotNull {
		p = slices.Delete(p, len(p)-2, len(p)-1)
	}
	return append(position{{m.Available.Name, "", dueValue}}, p...)
}

func (p position) columns() string {
	var columns []string
	for _, step := range p {
		columns = append(columns, step.column)
	}
	return strings.Join(columns, ", ")
}

// compared is a comparison with a row's place, whose values are added to some parameters: nulls for no place.
func (p position) compared(operator string, at Position, parameters *parameters) string {
	values := make([]string, len(p))
	for i, step := range p {
		var value []byte
		if !at.IsZero() && (step.at != orderValue || !at.nulls) { // nothing comes after null for certain
			value = []byte(at.values[step.at])
		}
		values[i] = parameters.add(value) + step.cast
	}
	return fmt.Sprintf("(%s) %s (%s)", p.columns(), operator, strings.Join(values, ", "))
}

// parameters are those of a statement.
type parameters [][]byte

// add adds a parameter and returns its name.
func (p *parameters) add(value []byte) string {
	*p = append(*p, value)
	return "$" + strconv.Itoa(len(*p))
}

// pageStatement returns the statement of a page and its parameters, of which the third is filled in later.
func (t *Table) pageStatement(q *Query) (string, parameters) {
	m := t.mapping
	statement, place := t.tail, m.position()
	switch {
	case q.Due:
		statement, place = t.dueTail, m.duePosition()
	case q.Sweep:
		statement = t.sweep
	}
	p := parameters{number(int64(q.Rows)), shardArray(q.Shards), nil}
	after, where := pattern.Always, ""
	if q.Seen != nil {
		after = "coalesce(" + place.compared(">", q.After, &p) + ", true)"
		certain := t.certain(p.add(q.Seen.binary()) + "::pg_snapshot")
		if t.Delays() {
			certain += fmt.Sprintf(" and (%s is null or %[1]s <= %s)", m.Available.Name,
				p.add(number(q.Seen.Now.Sub(epoch).Microseconds())))
		}
		where = fmt.Sprintf(" and (%s or not (%s))", after, certain)
	} else if !q.After.IsZero() {
		where = " and " + place.compared(">", q.After, &p)
	}
	if !q.Upto.IsZero() {
		where += " and " + place.compared("<=", q.Upto, &p)
	}
	if q.Seen != nil && q.Low != nil && t.Ordinal() && !m.Rank.Has() && !q.Due {
		low := *q.Low
		if !q.After.IsZero() {
			low = min(low, q.After.Ordinal)
		}
		bound := p.add(t.ordinalValue(low)) + "::" + orderTypes[m.Order.OID]
		if t.Timed() {
			bound = fmt.Sprintf("least(%s, %s - interval '%v')", bound, m.Order.Now(), Late)
		}
		where += " and " + m.Order.Name + " >= " + bound
	}
	return strings.NewReplacer("/*after*/", after, "/*range*/", where).Replace(statement), p
}

// certain is the condition that a row's writer had certainly ended at the time of a snapshot, as [Query] says. A
// number of 32 bits is compared by its age: two numbers of 64 bits would have to be made from it for each row.
func (t *Table) certain(seen string) string {
	ended := fmt.Sprintf("age(xmin) > (select max(age(x::xid)) from (select pg_snapshot_xmax(%[1]s) as x union all "+
		"select r from pg_snapshot_xip(%[1]s) r where pg_visible_in_snapshot(r, pg_current_snapshot())) ended)", seen)
	if !t.mapping.Txid.Has() {
		return ended
	}
	txid := t.mapping.Txid.Name
	return fmt.Sprintf("case when %[1]s < (select pg_snapshot_xmax(pg_current_snapshot())) then "+
		"pg_visible_in_snapshot(%[1]s, %[2]s) else %[3]s end", txid, seen, ended)
}
