package outbox

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/sql"
)

// OwnSchema returns the DDL that the destination of a view needs for columns of its own. It makes no request to the
// database.
func (c *Config) OwnSchema(v View) string { return sql.Destination(c.own(v)) }

// Condition returns the SQL condition for the rows whose topics a view takes, empty if it takes all.
func (c *Config) Condition(v View) string {
	topic := cmp.Or(c.Columns["topic"], c.Preferred["topic"], "topic")
	if condition := c.takes(v, Column{Name: sql.Quote(topic)}); condition != pattern.Always {
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
	for _, part := range new(state).roles() {
		if theirs, named := v.Columns[part.name]; named {
			o.Columns = append(o.Columns, sql.OwnColumn{Ours: part.name, Theirs: theirs})
		}
	}
	if o.Order = []string{"seq", name("inserted_at"), o.ID}; c.Columns["order"] != "" {
		o.Order = []string{c.Columns["order"]}
	}
	pending := pattern.Always
	for _, column := range c.PendingColumns(v) {
		pending = pattern.And(pending, sql.Quote(column)+" is null")
	}
	if from := v.origin(); from != nil {
		there := func(part string) string {
			if from.Columns != nil {
				return from.Columns[part]
			}
			return name(part)
		}
		o.Origin, o.OriginFailed, o.OriginAt = from.Name, v.FailedOf != nil, there("relayed_at")
		without := there("failed_at")
		if o.OriginFailed {
			if o.OriginAt, without = without, ""; from.Columns != nil || !c.Delete {
				without = there("relayed_at")
			}
		}
		pending = pattern.And(pending, sql.Quote(o.OriginAt)+" is not null")
		if without != "" {
			pending = pattern.And(pending, sql.Quote(without)+" is null")
		}
	}
	o.Pending = pattern.And(pending, cmp.Or(c.Condition(v), pattern.Always))
	return o
}

// A Stranger is a destination that keeps its state in the table and is not configured here. It may have been removed,
// or another deployment relays it: in either case rows may wait for it.
type Stranger struct {
	Name    string   // empty for the destinations that keep their state in the columns of the table
	Relayed string   // the column with relayed_at, empty if it has none any more
	Columns []string // all columns with its state
	Drop    string   // the statement that drops them
}

func (s Stranger) String() string {
	if s.Name == "" {
		return "those with the state in the table's own columns"
	}
	return s.Name
}

// Column returns the column by which the stranger's group is known; see [Group.Column].
func (s Stranger) Column() string {
	if s.Name == "" {
		return ""
	}
	return s.Relayed
}

// Strangers returns the destinations that keep their state in the table and are not configured. Columns with the
// comment that the statements of [Config.OwnSchema] make show them. So does the table's own relayed_at if all
// configured destinations have columns of their own.
func (t *Table) Strangers() []Stranger { return t.relation.strangers(t.config) }

func (r *relation) strangers(config Config) (found []Stranger) {
	used, own := map[string]bool{}, len(config.Views) > 0
	for _, v := range config.Views {
		own = own && v.Columns != nil
		for _, theirs := range v.Columns {
			used[theirs] = true
		}
	}
	relayed := cmp.Or(config.Columns["relayed_at"], config.Preferred["relayed_at"], "relayed_at")
	for _, c := range r.Columns {
		name := c.Plain
		destination, ours, ok := sql.ParseOwnComment(c.Comment)
		if own && name == relayed {
			destination, ours, ok = "", "relayed_at", true
		}
		if !ok || used[name] {
			continue
		}
		i := slices.IndexFunc(found, func(s Stranger) bool { return s.Name == destination })
		if i < 0 {
			i, found = len(found), append(found, Stranger{Name: destination})
		}
		if found[i].Columns = append(found[i].Columns, name); ours == "relayed_at" {
			found[i].Relayed = name
		}
	}
	for i := range found {
		found[i].Drop = r.dropping(found[i])
	}
	return found
}

// dropping returns the statement that drops a stranger's columns.
func (r *relation) dropping(s Stranger) string {
	drops := make([]string, len(s.Columns))
	for i, column := range s.Columns {
		drops[i] = "drop column " + sql.Quote(column)
	}
	return "alter table " + r.table.Quoted() + " " + strings.Join(drops, ", ") + ";"
}

// deletesForStrangers returns the reason why no relay may delete rows of the table when it has relayed them: rows may
// wait there for other destinations. It is nil if there is none.
func (r *relation) deletesForStrangers(config Config) *SetupError {
	strangers := r.strangers(config)
	if !config.Delete || config.Looks || len(strangers) == 0 {
		return nil
	}
	s := strangers[0]
	deletes := config.Names.Of("Delete")
	found := problem(checkColumns, "remove "+deletes+"; or, if destination "+s.Name+" is gone for good: "+s.Drop,
		"%s deletes a row as soon as it is relayed, but table %s keeps the state of destination %s, which is not "+
			"configured here, in %s: it would lose rows", deletes, r.table, s.Name, strings.Join(s.Columns, ", "))
	found.Err = errDeletes
	return found
}

// errDeletes marks the problem that relayed rows would be deleted for which other destinations wait.
var errDeletes = errors.New("rows would be lost")
