package outbox

import (
	"cmp"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/sql"
)

// OwnSchema returns the DDL that the destination of a view needs for columns of its own. It makes no request to the database.
func (c *Config) OwnSchema(v View) string { return sql.Destination(c.own(v)) }

// Condition returns the SQL condition for the rows whose topics a view takes, empty if it takes all.
func (c *Config) Condition(v View) string {
	topic := cmp.Or(c.Columns["topic"], c.Preferred["topic"], "topic")
	if condition := c.takes(v, &column{name: topic}); condition != pattern.Always {
		return condition
	}
	return ""
}

// PendingColumns returns the view's own columns that are null in its pending rows.
func (c *Config) PendingColumns(v View) (columns []string) {
	for _, part := range []string{"relayed_at", "failed_at"} {
		if theirs := v.Columns[part]; theirs != "" {
			columns = append(columns, theirs)
		}
	}
	return columns
}

func (c *Config) own(v View) sql.Own {
	name := func(part string, otherwise ...string) string {
		return cmp.Or(append([]string{c.Columns[part], c.Preferred[part]}, append(otherwise, part)...)...)
	}
	o := sql.Own{Table: c.Table, Destination: v.Name, ID: name("id"), Priority: name("priority"), Txid: name("txid")}
	for _, part := range stateColumns {
		if theirs, named := v.Columns[part]; named {
			o.Columns = append(o.Columns, sql.OwnColumn{Ours: part, Theirs: theirs})
		}
	}
	o.Filter = c.Condition(v)
	if o.Order = []string{"seq", name("inserted_at"), o.ID}; c.Columns["order"] != "" {
		o.Order = []string{c.Columns["order"]}
	}
	if from := v.origin(); from != nil {
		there := func(part string) string {
			if from.Columns != nil {
				return from.Columns[part]
			}
			return name(part)
		}
		o.Origin, o.OriginFailed, o.OriginAt = from.Name, v.FailedOf != nil, there("relayed_at")
		if o.OriginFailed {
			o.OriginAt = there("failed_at")
			if from.Columns != nil || !c.Delete {
				o.OriginWithout = there("relayed_at")
			}
		} else {
			o.OriginWithout = there("failed_at")
		}
	}
	return o
}

// A StrayColumn is a column of the table that keeps the state of a destination which is not configured.
type StrayColumn struct{ Destination, Ours, Name string }

// StrayColumns returns the columns of destinations that were removed or renamed: columns with the comment that the statements
// of [Config.OwnSchema] make, and that are not a view's own.
func (t *Table) StrayColumns() []StrayColumn { return t.relation.strays(t.config) }

func (r *relation) strays(config Config) (found []StrayColumn) {
	used := map[string]bool{}
	for _, v := range config.Views {
		for _, theirs := range v.Columns {
			used[theirs] = true
		}
	}
	for _, name := range r.named {
		if destination, ours, ok := sql.ParseOwnComment(r.columns[name].comment); ok && !used[name] {
			found = append(found, StrayColumn{destination, ours, name})
		}
	}
	return found
}
