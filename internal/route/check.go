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
		others := slices.DeleteFunc(slices.Sorted(maps.Keys(d.Columns)), func(ours string) bool {
			return slices.Contains(StateColumns, ours)
		})
		bad(len(others) > 0, "Columns", "maps %s, which all destinations have in common; the columns of a destination "+
			"are %s", strings.Join(others, ", "), strings.Join(StateColumns, ", "))
		bad(d.Columns != nil && d.Columns["relayed_at"] == "", "Columns", "lacks relayed_at, which records the rows "+
			"that are done; add it")
		bad(len(slices.Compact(slices.Sorted(maps.Values(d.Columns)))) < len(d.Columns), "Columns", "uses one column "+
			"twice; each name must have a separate column")
		var names []string
		var earlier [][]string
		for _, other := range all[:i] {
			equal, sameRows := d.SameColumns(other.View), d.source() == other.source()
			if equal && sameRows {
				names, earlier = append(names, other.Name), append(earlier, other.Topics)
			}
			shared := common(d.Columns, other.Columns)
			bad(len(shared) > 0 && !equal, "Columns", "shares only %s with %s; two destinations must have either the "+
				"same columns or no column in common", strings.Join(shared, ", "), other.Names.Of("Columns"))
			bad(len(shared) > 0 && equal && !sameRows, "Columns", "is the same as %s, but these two destinations do "+
				"not take the same rows; set separate columns for each", other.Names.Of("Columns"))
		}
		if pattern.TakesNone(d.Topics, nil) {
			bad(true, "Topics", "excludes every topic that it includes, so that the destination takes no row; correct "+
				"the patterns")
		} else {
			bad(pattern.TakesNone(d.Topics, earlier), "Topics", "leaves no row to the destination, since each row "+
				"goes to the first destination that takes it, which is always %s; to divide the rows, set topics or "+
				"list this one first in %s; for a copy of each row, set %s to columns of its own",
				strings.Join(names, " or "), listed, d.Names.Of("Columns"))
		}
		bad(table.Delete && d.Columns != nil, "Columns", "contradicts %s, which deletes a row as soon as one "+
			"destination has relayed it; remove one of them", table.Names.Of("Delete"))
	}
	return found
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
	case from == d:
		return field, "names the destination itself; name the destination whose rows it takes"
	case from == nil:
		var names []string
		for _, d := range all {
			names = append(names, d.Name)
		}
		return field, "names an unknown destination; " + listed + " lists " + strings.Join(names, ", ")
	case origin == d:
		return field, "leads back to " + d.Name + ", so that neither would ever receive a row; one of them must take " +
			"rows as they are inserted"
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
