package outbox

import (
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// A View is the table as one destination sees it: which rows are its own, and which columns keep what became of them there.
type View struct {
	Filter
	Name string // of the destination
	// Columns maps our names of the columns that keep the destination's state (relayed_at, attempt, failed_at, last_error, updated_at) to
	// the table's. What it does not name the destination does without. nil stands for the columns of the table, which all destinations
	// without their own have in common.
	Columns map[string]string
	// FailedOf and RelayedOf are the view of another destination, of which this one takes the rows that have failed or been relayed
	// there. At most one of them is set, and the view has columns of its own then.
	FailedOf, RelayedOf *View
	// BlockFailed is [Config.BlockFailed] for this destination.
	BlockFailed bool
	// Expires: rows may fail for their age, so failed_at is needed, and inserted_at to tell it.
	Expires bool
}

// stateColumns are our names of the columns that keep what became of a row at a destination.
var stateColumns = []string{"relayed_at", "attempt", "failed_at", "last_error", "updated_at"}

// SameColumns reports whether two destinations keep their state in the same columns, so that they divide the rows.
func (v View) SameColumns(other View) bool { return maps.Equal(v.Columns, other.Columns) }

// variable is the name of a setting of the view's destination.
func (v View) variable(setting string) string {
	return "OUTBOX_DESTINATION_" + strings.ToUpper(strings.ReplaceAll(v.Name, "-", "_")) + "_" + setting
}

// origin returns the destination of which the view takes what has become of rows there, nil if it takes them as they are inserted.
func (v View) origin() *View {
	if v.FailedOf != nil {
		return v.FailedOf
	}
	return v.RelayedOf
}

// condition is which rows the view takes in SQL, as far as their topics say. Of those that have failed or been relayed in columns that
// several destinations have in common, it is the ones that are the origin's.
func (v View) condition(topic *column) string {
	condition := v.Filter.condition(topic)
	if origin := v.origin(); origin != nil && origin.Columns == nil {
		condition = pattern.And(condition, origin.condition(topic))
	}
	return condition
}

// written reports whether other views write into the rows of one that has columns of its own, and that takes them as they are inserted,
// while it has them, too.
func (v View) written(config Config) bool {
	return v.Columns != nil && v.origin() == nil && slices.ContainsFunc(config.Views, func(other View) bool {
		return other.origin() == nil && !other.SameColumns(v)
	})
}

// deadLetters are the views that take what has failed at another one.
func (c *Config) deadLetters(v View) (views []View) {
	for _, other := range c.Views {
		if other.FailedOf != nil && other.FailedOf.Name == v.Name {
			views = append(views, other)
		}
	}
	return views
}

// For returns the same table as one destination sees it: only rows that are the destination's are read, counted, measured and sampled,
// and their state is in its columns. Open has been given the view ([Config.Views]), or it is but a filter of rows whose state is in
// the columns of the table. The error is a [*SetupError] when the table lacks a column of the view. For asks the database nothing.
func (t *Table) For(v View) (*Table, error) {
	m, problems := mapColumns(t.relation, t.config, v)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	return newTable(t.pool, t.relation, m, t.config, v), nil
}
