package outbox

import (
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
func (m *mapping) Strangers() (found []Stranger) {
	used, own := map[string]bool{}, len(m.config.Views) > 0
	for _, v := range m.config.Views {
		own = own && v.Columns != nil
		for _, theirs := range v.Columns {
			used[theirs] = true
		}
	}
	for _, c := range m.relation.Columns {
		destination, ours, ok := sql.ParseOwnComment(c.Comment)
		if own && c.Plain == m.config.column("relayed_at") {
			destination, ours, ok = "", "relayed_at", true
		}
		if !ok || used[c.Plain] {
			continue
		}
		i := slices.IndexFunc(found, func(s Stranger) bool { return s.Name == destination })
		if i < 0 {
			i, found = len(found), append(found, Stranger{Name: destination})
		}
		if found[i].Columns = append(found[i].Columns, c.Plain); ours == "relayed_at" && destination != "" {
			found[i].Column = c.Plain
		}
	}
	return found
}

// checkDeletes sees to it that no relay deletes rows of the table when it has relayed them, while rows may wait there
// for other destinations.
func (m *mapping) checkDeletes() {
	strangers := m.Strangers()
	if !m.config.Delete || len(strangers) == 0 {
		return
	}
	s, deletes := strangers[0], m.config.Names.Of("Delete")
	m.fail("remove "+deletes+", or drop these columns if the destination is gone for good",
		"%s deletes a row as soon as it is relayed, but table %s keeps the state of destination %s, which is not "+
			"configured here, in %s: it would lose rows",
		deletes, m.relation.table, s.Name, strings.Join(s.Columns, ", "))
}
