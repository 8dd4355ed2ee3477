package route

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// A Problem is what is wrong with a field of a destination, by itself or in relation to the others, or with a field of
// the table's configuration.
type Problem struct {
	Destination int    // index; negative for a field of the table's configuration
	Field       string // as in the relay's configuration
	Text        string // continues the sentence after the field's name
}

// ofTable is the Destination of a Problem with the table's configuration.
const ofTable = -1

// StateColumns are the relay's names of the columns that it writes.
var StateColumns = []string{"relayed_at", "attempt", "failed_at", "last_error", "updated_at"}

// check returns what keeps the destinations of one table from fitting together: where each keeps its state, and which
// rows it takes. The problems are in the order of the destinations.
func check(all []*Route, table outbox.Config) (found []Problem) {
	listed := table.Names.Of("Destinations")
	for i, d := range all {
		bad := func(is bool, field, format string, args ...any) {
			if is {
				found = append(found, Problem{i, field, fmt.Sprintf(format, args...)})
			}
		}
		if d.FailedFrom != "" && d.RelayedFrom != "" {
			bad(true, "RelayedOf", "contradicts %s; remove one of them", d.Names.Of("FailedOf"))
		} else if field, text := d.origin(all, listed); text != "" {
			bad(true, field, "%s", text)
		}
		bad(d.Columns != nil && !areState(d.Columns), "Columns", "must map relayed_at, any of %s, and nothing else, "+
			"each to a separate column", strings.Join(StateColumns[1:], ", "))
		var earlier [][]string
		for _, other := range all[:i] {
			alike := d.SameColumns(other.View) && d.source() == other.source()
			if alike {
				earlier = append(earlier, other.Topics)
			}
			shared := common(d.Columns, other.Columns)
			bad(len(shared) > 0 && !alike, "Columns", "shares %s with %s; two destinations must have no column in "+
				"common, or the same columns and rows from the same source", strings.Join(shared, ", "),
				other.Names.Of("Columns"))
		}
		bad(pattern.TakesNone(d.Topics, earlier), "Topics", "leaves no row to the destination: exclusions win, and "+
			"each row goes to the first destination that takes it; to divide the rows, correct the topics or list "+
			"this one first in %s; for a copy of each row, set %s to columns of its own", listed,
			d.Names.Of("Columns"))
		bad(table.Delete && d.Columns != nil, "Columns", "contradicts %s, which deletes a row as soon as one "+
			"destination has relayed it; remove one of them", table.Names.Of("Delete"))
	}
	return found
}

// areState reports whether columns can keep a destination's state.
func areState(columns map[string]string) bool {
	for ours := range columns {
		if !slices.Contains(StateColumns, ours) {
			return false
		}
	}
	return columns["relayed_at"] != "" && len(slices.Compact(slices.Sorted(maps.Values(columns)))) == len(columns)
}

// source returns from which destination the rows come, and in which state: empty for rows as they are inserted.
func (d *Route) source() [2]string { return [2]string{d.FailedFrom, d.RelayedFrom} }

// origin returns what is wrong with the destination whose failed or relayed rows this one takes, empty if it is right.
func (d *Route) origin(all []*Route, listed string) (field, text string) {
	field, name := "FailedOf", d.FailedFrom
	if name == "" {
		field, name = "RelayedOf", d.RelayedFrom
	}
	if name == "" {
		return "", ""
	}
	named := func(name string) *Route {
		if i := slices.IndexFunc(all, func(d *Route) bool { return name != "" && d.Name == name }); i >= 0 {
			return all[i]
		}
		return nil
	}
	from := named(name)
	origin := from
	for range all { // as many steps as there are destinations lead back to this one, or never will
		if origin != nil && origin != d {
			origin = named(cmp.Or(origin.FailedFrom, origin.RelayedFrom))
		}
	}
	switch {
	case from == nil:
		return field, "names an unknown destination; name one that " + listed + " lists"
	case origin == d:
		return field, "leads back to " + d.Name + ", which would never receive a row; name a destination that takes " +
			"rows as they are inserted, directly or by way of others"
	case d.Columns == nil:
		return field, "requires columns of its own; set " + d.Names.Of("Columns")
	case d.FailedFrom != "" && from.Columns != nil && from.Columns["failed_at"] == "":
		return field, "names " + name + ", whose columns do not include failed_at, so that no row fails there; add " +
			"failed_at to them"
	}
	return "", ""
}

// common returns the columns that two destinations share, sorted.
func common(a, b map[string]string) []string {
	theirs := slices.Collect(maps.Values(b))
	return slices.DeleteFunc(slices.Sorted(maps.Values(a)), func(column string) bool {
		return !slices.Contains(theirs, column)
	})
}
