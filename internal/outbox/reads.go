package outbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// A read is a statement that reads rows. Its text has marks where it depends on the query: see [read.of].
type read struct {
	statement  string
	parameters parameters // $1 the number of rows, $2 which of them, $3 the bytes of a row, which [Table.ask] fills in
	order      position   // the order of its rows
	inOrder    bool       // an index gives this order: see [limits]
	bare       bool       // without contents
}

// reads are the statements that read rows. They are rendered once.
type reads struct {
	tail, dueTail, sweep, failed, byID, keys, dueKeys read

	certain string  // whether a row's writer had certainly ended at the time of [Query.Seen]
	formats []int16 // of the columns of all of them
}

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

// prepareReads renders the statements.
func (t *Table) prepareReads() {
	m, place, first := t.mapping, t.mapping.position(), "null::bigint"
	if m.Rank.Has() {
		first = rank(m)
	}
	t.formats, t.certain = t.columnFormats(), t.description.text("certain.sql")
	d := t.description.with("rows", t.description["due"], "next", "null", "columns", t.columns(withPage, first),
		"which", "($2::integer[] is null or "+m.shard()+" = any ($2))",
		"nothing", strings.Repeat(", null", len(t.formats)-atAfter))
	page := func(order position, pairs ...string) read {
		return read{statement: d.text("tail.sql", pairs...), order: order, inOrder: true}
	}
	t.tail = page(place)
	// A sweep looks into all partitions: it finds what no other read can find.
	t.sweep = page(place, "columns", t.columns(bare, first), "rows", strings.TrimPrefix(d["due"], partitionMark))
	t.tail.inOrder, t.sweep.inOrder, t.sweep.bare = m.followed, m.followed, true
	t.byID.statement = d.text("tail.sql", "columns", t.columns(wholeRows, first),
		"rows", partitionMark+m.pendingByID()+d["arrived_filter"],
		"which", d["id"]+" = any ($2::"+d["id_type"]+"[])")
	if m.Failed.Has() {
		order := position{{m.Failed.Name, firstValue}, {m.ID.Name, idValue}}
		t.failed = page(order, "columns", t.columns(bare, m.Failed.Name), "ordering", order.columns(),
			"rows", d["failed"]+" and "+m.Key+" is not null")
		t.failed.bare = true
	}

	keys := d.with("found", "ctid", "key_ordering", d["hash"]+", "+place.columns(),
		"from", d["hash"], "asked", `"asked keys".hash`, "lows", "", "low", "", "from_lows", "")
	if t.relation.Children {
		keys = keys.with("found", d["id"])
	}
	if t.numbered() {
		typ, _ := t.ordinalType()
		lows := "$5::" + typ + "[]"
		keys = keys.with("lows", ", "+lows, "low", ", low",
			"from", "("+d["hash"]+", "+d["order"]+")", "asked", `("asked keys".hash, "asked keys".low)`,
			"from_lows", fmt.Sprintf(" and %s >= (%s)[array_position($2::bigint[], %s)]", d["order"], lows, d["hash"]))
	}
	t.keys.statement = keys.text("keys_pass.sql")
	if m.keyIndex {
		t.keys = read{statement: keys.text("keys.sql"), inOrder: true}
	}

	if m.dueIndex { // rows that are due at a time of their own keep no order, so each is a key by itself
		order := m.duePosition()
		byTime := []string{
			"hash", "hashtextextended(" + d["id"] + "::text, 0)", "rows", d["arrived"], "ordering", order.columns(),
		}
		t.dueTail = page(order, append(byTime, "next", d.text("next_due.sql"))...)
		t.dueKeys.statement = keys.text("keys_pass.sql", append(byTime, "from_lows", "")...)
	}
}

// A position is the columns that give an order, and the places of a row's values in its [Position].
type position []struct {
	column string
	at     int
}

// position is table order.
func (m *mapping) position() (p position) {
	if m.Rank.Has() {
		p = append(p, position{{rank(m), firstValue}}...)
	}
	if m.Order != m.ID {
		p = append(p, position{{m.Order.Name, orderValue}}...)
	}
	return append(p, position{{m.ID.Name, idValue}}...)
}

// duePosition is the order of rows that are read by the time at which they are due.
func (m *mapping) duePosition() position {
	p := m.position()
	if m.Order != m.ID && !m.Order.NotNull {
		p = slices.Delete(p, len(p)-2, len(p)-1)
	}
	return append(position{{m.Available.Name, dueValue}}, p...)
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
		// Nothing comes after null for certain. An empty id stands for none.
		null := step.at == orderValue && at.nulls || step.at == idValue && at.values[idValue] == ""
		if !at.IsZero() && !null {
			value = []byte(at.values[step.at])
		}
		values[i] = parameters.add(value)
	}
	return fmt.Sprintf("(%s) %s (%s)", p.columns(), operator, strings.Join(values, ", "))
}

// numbered reports whether rows are in the order of numbers alone, so that a read may begin at one.
func (t *Table) numbered() bool { return t.Ordinal() && !t.Ranked() }

// ordinalType is the type of a parameter with such a number.
func (t *Table) ordinalType() (name string, oid uint32) {
	if t.Timed() {
		return orderTypes[t.mapping.Order.OID], t.mapping.Order.OID
	}
	return "bigint", pgtype.Int8OID
}

// parameters are those of a statement.
type parameters [][]byte

// add adds a parameter and returns its name.
func (p *parameters) add(value []byte) string {
	*p = append(*p, value)
	return "$" + strconv.Itoa(len(*p))
}

// of returns a read of pages as a query asks for it.
func (r read) of(t *Table, q *Query) read {
	p := parameters{number(int64(q.Rows)), shardArray(q.Shards), nil}
	after, where := pattern.Always, ""
	if q.Seen != nil {
		p = append(p, q.Seen.binary(), number(q.Seen.Now.Sub(epoch).Microseconds()))
		after = "coalesce(" + r.order.compared(">", q.After, &p) + ", true)"
		where = " and (" + after + " or not (" + t.certain + "))"
	} else if !q.After.IsZero() {
		where = " and " + r.order.compared(">", q.After, &p)
	}
	if !q.Upto.IsZero() {
		where += " and " + r.order.compared("<=", q.Upto, &p)
	}
	if q.Low != nil && t.numbered() {
		low := *q.Low
		if !q.After.IsZero() {
			low = min(low, q.After.Ordinal)
		}
		order := t.mapping.Order
		typ, _ := t.ordinalType()
		bound := p.add(number(low)) + "::" + typ
		if t.Timed() {
			bound = fmt.Sprintf("least(%s, %s - interval '%v')", bound, order.Now(), Late)
		}
		where += " and " + order.Name + " >= " + bound
	}
	r.statement, r.parameters = strings.NewReplacer("/*after*/", after, "/*range*/", where).Replace(r.statement), p
	return r
}
