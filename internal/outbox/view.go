package outbox

import (
	"maps"
	"slices"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/internal/setting"
)

// A View is the table as one destination sees it: which rows are its own, and which columns keep what became of them
// there.
type View struct {
	Filter
	Name string // name of the destination
	// Optional says that the destination is best effort: no row is kept for it.
	Optional bool
	// Columns maps the relay's names of the columns that keep the destination's state (relayed_at, attempt, failed_at,
	// last_error, updated_at) to the table's names. The destination does without columns that are not in the map. A nil
	// map stands for the columns of the table, which all destinations without columns of their own share.
	Columns map[string]string
	// FailedOf and RelayedOf are the view of another destination; this view takes the rows that have failed or been
	// relayed there. At most one of them is set, and the view then has columns of its own.
	FailedOf, RelayedOf *View
	// BlockFailed says that a failed row blocks its key. The keys of failed rows must then be found by an index.
	BlockFailed bool
	// Expires says that rows may fail because of their age. The table then needs failed_at, and inserted_at to
	// determine the age.
	Expires bool
	// Encoded says that the payload is text that encodes bytes, so its column must have a text type.
	Encoded bool
	// Extra are the indexes of those of [Config.Extra] of which the destination's messages are made; nil stands for all
	// of them. What is in the way of the others does not keep the destination from the table, and their texts are then
	// NULL.
	Extra []int
	// Names are the user's names of the fields of the destination's configuration.
	Names setting.Names
}

// SameColumns reports whether two destinations keep their state in the same columns, so that they divide the rows.
func (v View) SameColumns(other View) bool { return maps.Equal(v.Columns, other.Columns) }

// origin returns the destination whose failed or relayed rows the view takes, nil if the view takes rows as they are
// inserted.
func (v View) origin() *View {
	if v.FailedOf != nil {
		return v.FailedOf
	}
	return v.RelayedOf
}

// takes is the SQL condition for the rows that a view takes, as far as topics decide it. If the view takes rows that
// have failed or been relayed in columns that several destinations may share, it takes the origin's rows.
func (c *Config) takes(v View, topic Column) string {
	condition := v.Filter.condition(topic)
	if origin := v.origin(); origin != nil && (origin.Columns == nil || c.divided(*origin)) {
		condition = pattern.And(condition, origin.condition(topic))
	}
	return condition
}

// divided reports whether a view shares its columns with another one, so that they divide the rows.
func (c *Config) divided(v View) bool {
	return slices.ContainsFunc(c.Views, func(other View) bool { return other.Name != v.Name && other.SameColumns(v) })
}

// shared reports whether destinations with different columns write into the same rows.
func (c *Config) shared() bool {
	return slices.ContainsFunc(c.Views, func(v View) bool { return !v.SameColumns(c.Views[0]) })
}

// deadLetters returns the views that take the rows that have failed at a view or at another one with the same columns:
// one statement writes the failures of all destinations that divide the rows.
func (c *Config) deadLetters(v View) (views []View) {
	for _, other := range c.Views {
		if other.FailedOf != nil && other.FailedOf.SameColumns(v) {
			views = append(views, other)
		}
	}
	return views
}

// For returns the same table as one destination sees it: only the destination's rows are read, counted and
// measured, and their state is in its columns. The view must have been given to Open ([Config.Views]), or be only a
// filter of rows whose state is in the columns of the table. The error is a [*SetupError] if the table lacks a column
// of the view. For makes no request to the database.
func (t *Table) For(v View) (*Table, error) {
	m := t.see(v)
	if len(m.problems) > 0 {
		return nil, m.problems[0]
	}
	return t.with(m), nil
}

// View returns the view of the destination as which the table is seen.
func (t *Table) View() View { return t.view }

// see returns how a destination understands the table, and what keeps it from using it.
func (t *Table) see(v View) *mapping {
	m := t.common.as(v)
	if denied := t.denied[v.Name]; denied != nil {
		m.problems = append(m.problems, denied)
	}
	return m
}
