package outbox

import (
	"errors"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/sql"
)

// A Stranger is a destination that keeps its state in the table and is not configured here. It may have been removed,
// or another deployment relays it: in either case rows may wait for it.
type Stranger struct {
	Name    string   // empty for the destinations that keep their state in the columns of the table
	Column  string   // by which its group is known ([Group.Column]), empty if it has no relayed_at any more
	Columns []string // all columns with its state
	Drop    string   // the statement that drops them
}

func (s Stranger) String() string {
	if s.Name == "" {
		return "those with the state in the table's own columns"
	}
	return s.Name
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
	for _, c := range r.Columns {
		name := c.Plain
		destination, ours, ok := sql.ParseOwnComment(c.Comment)
		if own && name == config.column("relayed_at") {
			destination, ours, ok = "", "relayed_at", true
		}
		if !ok || used[name] {
			continue
		}
		i := slices.IndexFunc(found, func(s Stranger) bool { return s.Name == destination })
		if i < 0 {
			i, found = len(found), append(found, Stranger{Name: destination})
		}
		if found[i].Columns = append(found[i].Columns, name); ours == "relayed_at" && destination != "" {
			found[i].Column = name
		}
	}
	for i, s := range found {
		drops := each(s.Columns, func(column string) string { return "drop column " + sql.Quote(column) })
		found[i].Drop = "alter table " + r.table.Quoted() + " " + strings.Join(drops, ", ") + ";"
	}
	return found
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
