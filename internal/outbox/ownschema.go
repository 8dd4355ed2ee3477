package outbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Assumed returns the table as a view sees it if it has every column that the settings name or the relay looks for, to
// make scripts for it. It has no connection.
func (c *Config) Assumed(v View) *Table {
	r := &relation{table: c.Table, columns: map[string]Column{}}
	var all mapping
	for _, role := range slices.Concat(all.roles(), all.state.roles()) {
		from := cmp.Or(v.origin(), &v)
		for _, name := range []string{c.column(role.name), v.Columns[role.name], from.Columns[role.name]} {
			r.columns[name] = Column{Name: sql.Quote(name), Plain: name, OID: slices.Concat(role.types, textTypes)[0]}
		}
	}
	if delete(r.columns, ""); c.Delete && c.Columns["relayed_at"] == "" {
		delete(r.columns, c.column("relayed_at"))
	}
	t := &Table{common: r.understand(*c)}
	return t.with(t.see(v))
}

// column returns the table's name for a column by the relay's.
func (c *Config) column(ours string) string { return cmp.Or(c.Columns[ours], c.Preferred[ours], ours) }

// OwnSchema returns the DDL of the columns and indexes that the destination of a view needs for columns of its own. It
// may be applied repeatedly. Rows that count as done get a time that says to verify and status that they were never
// sent. Every client can read this time, which cannot be said of -infinity.
func (c *Config) OwnSchema(v View) string {
	t := c.Assumed(v)
	m, table := t.mapping, t.Quoted()
	d := t.description.with("name", v.Name, "oid", sql.Literal(table)+"::regclass", "columns", "",
		"origin", cmp.Or(v.origin(), &v).Name,
		"relayed", m.Relayed.Name, "relayed_name", sql.Literal(m.Relayed.Plain), "txid", t.common.Txid.Name)
	existing := "destination_all.sql"
	if v.FailedOf != nil {
		existing = "destination_failed.sql"
	} else if v.RelayedOf != nil {
		existing = "destination_relayed.sql"
	}
	d["existing"] = sql.Script(existing, d)
	for _, r := range m.state.roles() {
		if !r.column.Has() {
			continue
		}
		if r.column != &m.Relayed { // which the script adds by itself
			d["columns"] += fmt.Sprintf("alter table %s add column if not exists %s %s;\n", table, r.column.Name, r.ddl)
		}
		d["columns"] += fmt.Sprintf("comment on column %s.%s is %s;\n", table, r.column.Name,
			sql.Literal(sql.OwnComment(v.Name, r.name)))
	}
	index := func(what, columns, where string) string {
		return fmt.Sprintf("create index if not exists %s on %s (%s) where %s;\n",
			sql.Quote(sql.IndexName(c.Table, "_"+v.Name+"_"+what+"_idx")), table, columns, where)
	}
	if pending := pattern.And(m.Pending, m.Taken); m.origin != nil {
		d["pending_index"] = index("pending", m.position().columns(), pending)
	} else { // the table may lack some of the columns
		order := []string{"seq", c.column("inserted_at"), m.ID.Plain}
		if named := c.Columns["order"]; named != "" {
			order = []string{named}
		}
		begin, end, _ := strings.Cut(index("pending", "\x00", pending), "\x00")
		d["pending_index"] = sql.Script("destination_index.sql", d.with("order", sql.Literals(order),
			"priority", sql.Literal(m.Rank.Plain), "id", sql.Literal(m.ID.Plain),
			"create", sql.Literal(begin), "where", sql.Literal(strings.TrimSpace(end))))
	}
	if m.Failed.Has() {
		d["pending_index"] += "\n-- For counting and listing the rows that have failed there.\n" +
			index("failed", m.Failed.Name+", "+m.ID.Name, m.Failed.Name+" is not null")
	}
	return sql.Script("destination.sql", d)
}

// DelaySchema returns the DDL that rows which become due later need, in the table's own columns or those of a view. It
// may be applied repeatedly.
func (c *Config) DelaySchema(v View) string {
	t := c.Assumed(v)
	m, suffix, order := t.mapping, "", sql.Quote(cmp.Or(c.Columns["order"], "seq"))
	if c.Columns["priority"] != "" {
		order = m.rankFirst() + order
	}
	if v.Columns != nil {
		suffix = "_" + v.Name
	}
	index := func(what string) string { return sql.Quote(sql.IndexName(c.Table, suffix+"_"+what+"_idx")) }
	return sql.Script("delays.sql", t.description.with("pending", pattern.And(m.Pending, m.Taken),
		"due_columns", m.Available.Name+", "+order, "order_columns", order, "due_index", index("due"),
		"undelayed_index", index("undelayed"), "pending_index", index("pending")))
}
