package outbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// A Group is the destinations that keep their state in the same columns of the table, and so divide its rows. The names
// of its JSON fields are stable.
type Group struct {
	Names   []string `json:"destinations"`
	Column  string   `json:"column"` // the column with relayed_at, empty for the columns of the table
	Mapping string   `json:"-"`      // how a row's shard, its place in the order and its destination are found
}

// GroupColumn returns the column by which the group of a view is known; see [Group.Column].
func (v View) GroupColumn() string { return v.Columns["relayed_at"] }

// GroupColumn returns the column by which the group of the table's view is known; see [Group.Column].
func (t *Table) GroupColumn() string { return t.view.GroupColumn() }

// Groups returns the groups of the configured destinations of which one can use the table. Replicas whose mapping of a
// group differs must not relay it side by side.
func (t *Table) Groups() (groups []Group) {
	of, able := map[string][]string{}, map[string]bool{}
	for _, v := range t.config.views() {
		m := t.see(v)
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Column == v.GroupColumn() })
		if i < 0 {
			i, groups = len(groups), append(groups, Group{Column: v.GroupColumn()})
		}
		g := &groups[i]
		g.Names, of[g.Column] = append(g.Names, v.Name), append(of[g.Column], m.taking(v))
		able[g.Column] = able[g.Column] || len(m.problems) == 0
	}
	for i, g := range groups {
		slices.Sort(of[g.Column]) // where the order of the destinations matters, it is part of their filters
		groups[i].Mapping = strings.Join(of[g.Column], "\n")
	}
	return slices.DeleteFunc(groups, func(g Group) bool { return !able[g.Column] })
}

// mapping describes how a row's shard and its place in the order are found.
func (m *mapping) mapping() string {
	priority := "none"
	if m.Rank.Has() {
		priority = rank(m)
	}
	return fmt.Sprintf("shard %s, order %s, %s, priority %s", m.shard(), m.Order.Name, m.ID.Name,
		priority)
}

// The only destination, and the columns that keep its state, in the recommended table without further settings.
const (
	usualName  = "default"
	usualState = `["relayed_at" "attempt" "failed_at" "last_error" "updated_at"]`
)

// taking describes the rows that a destination takes, and where it keeps their state. Where all is as usual, that is
// left out: versions that know no other case share the work then.
func (m *mapping) taking(v View) string {
	var columns []string
	for _, c := range m.state.columns() {
		columns = append(columns, c.Plain)
	}
	state := fmt.Sprintf("%q", columns)
	if cmp.Or(v.Name, usualName) == usualName && state == usualState && m.Taken == pattern.Always {
		return m.mapping()
	}
	return fmt.Sprintf("%s: %s, columns %s, rows %s", v.Name, m.mapping(), state, m.Taken)
}
