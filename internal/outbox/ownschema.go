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
		names := []string{c.column(role.name), v.Columns[role.name]}
		if from := v.origin(); from != nil {
			names = append(names, from.Columns[role.name])
		}
		for _, name := range names {
			r.columns[name] = Column{Name: sql.Quote(name), Plain: name, OID: slices.Concat(role.types, textTypes)[0]}
		}
	}
	if delete(r.columns, ""); c.Delete && c.Columns["relayed_at"] == "" {
		delete(r.columns, c.column("relayed_at"))
	}
	common, _ := r.understand(c)
	m, _ := common.as(r, c, v)
	return (&Table{relation: r, common: common, config: *c}).with(m, v)
}

// column returns the table's name for a column by the relay's.
func (c *Config) column(ours string) string { return cmp.Or(c.Columns[ours], c.Preferred[ours], ours) }

// OwnSchema returns the DDL of the columns and indexes that the destination of a view needs for columns of its own. It
// may be applied repeatedly.
func (c *Config) OwnSchema(v View) string {
	t := c.Assumed(v)
	m, table, relayed := t.mapping, t.Quoted(), t.Relayed.Name
	// Rows that count as done were never sent. Their time says so to verify and status, prune waits for nothing, and
	// every client can read it, which cannot be said of -infinity.
	const never = "'epoch'"
	by, which, where, how := " default "+never, "Rows that exist", "...", ", in small parts"
	rows := fmt.Sprintf("alter table %s alter column %s drop default;", table, relayed)
	switch {
	case v.FailedOf != nil:
		which, where, how = "Rows that have failed at "+v.FailedOf.Name+" already", m.Order.Name+" is not null", ""
		by, rows = "", fmt.Sprintf("update %s set %s = %s where %s;", table, relayed, never, where)
	case v.RelayedOf != nil:
		which = "Rows that " + v.RelayedOf.Name + " has relayed already"
		rows += fmt.Sprintf("\n    update %s set %s = null where %s is null;", table, relayed, m.Order.Name)
	}
	var columns strings.Builder
	for _, r := range m.state.roles() {
		if !r.column.Has() {
			continue
		}
		if r.column != &m.Relayed { // which the script adds by itself
			fmt.Fprintf(&columns, "alter table %s add column if not exists %s %s;\n", table, r.column.Name, r.ddl)
		}
		fmt.Fprintf(&columns, "comment on column %s.%s is %s;\n", table, r.column.Name,
			sql.Literal(sql.OwnComment(v.Name, r.name)))
	}
	index := func(what, columns, where string) string {
		return fmt.Sprintf("create index if not exists %s on %s (%s) where %s;\n",
			sql.Quote(sql.IndexName(c.Table, "_"+v.Name+"_"+what+"_idx")), table, columns, where)
	}
	d := t.description.with("name", v.Name, "oid", sql.Literal(table)+"::regclass", "relayed", relayed, "default", by,
		"rows", rows, "relayed_name", sql.Literal(m.Relayed.Plain), "columns", columns.String(),
		"txid", t.common.Txid.Name,
		"existing", fmt.Sprintf("-- %s count as done. To include some, empty the column for them afterwards%s:\n--   "+
			"update %s set %s = null where %s;", which, how, table, relayed, where))
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
