package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
)

// checkStates checks where the destinations keep their state: in the columns of the table, in the same columns as
// another destination, or in columns of their own.
func checkStates(c *Config, scopes []*scope) {
	for i, s := range scopes {
		d := &c.Destinations[i]
		ours := s.origins["COLUMNS"].variable
		checkOrigin(c, d, s)
		checkRows(c, d, i, s)
		s.badIf(d.MaxAge > 0 && d.Columns != nil && d.Columns["failed_at"] == "", "MAX_AGE",
			"requires a column for failed_at, but %s does not name one; add it or remove the setting", ours)
		if d.Columns == nil {
			continue
		}
		s.badIf(c.Settle == SettleDelete, "COLUMNS", "contradicts OUTBOX_SETTLE=delete, which deletes a row as soon as one "+
			"destination has relayed it; remove one of them")
		// Columns that are the table's are not of its own: the destination divides the rows with others.
		if maps.Equal(d.Columns, c.Table.state()) {
			d.Columns = nil
			continue
		}
		if part, column := c.Table.shares(d.Columns); part != "" {
			s.bad("COLUMNS", "uses the column %s, which is the table's %s; each column must belong to the destination alone",
				column, part)
			continue
		}
		for j, other := range c.Destinations[:i] {
			equal, shared := maps.Equal(d.Columns, other.Columns), common(d.Columns, other.Columns)
			theirs := scopes[j].origins["COLUMNS"].variable
			s.badIf(len(shared) > 0 && !equal, "COLUMNS", "shares only %s with %s; two destinations must have either the same "+
				"columns or no column in common", strings.Join(shared, ", "), theirs)
			s.badIf(equal && !d.sameOrigin(other), "COLUMNS", "is the same as %s, but these two destinations do not take the "+
				"same rows; set separate columns for each", theirs)
		}
	}
}

// sameOrigin reports whether two destinations take the same rows, as far as these come from other destinations.
func (d *Destination) sameOrigin(other Destination) bool {
	return d.FailedOf == other.FailedOf && d.RelayedOf == other.RelayedOf
}

// checkOrigin checks the rows of a destination that takes what has failed or been relayed at another destination.
func checkOrigin(c *Config, d *Destination, s *scope) {
	s.badIf(d.FailedOf != "" && d.RelayedOf != "", "RELAYED_OF", "contradicts %s; remove one of them",
		s.origins["FAILED_OF"].variable)
	key, name := "FAILED_OF", d.FailedOf
	if name == "" {
		key, name = "RELAYED_OF", d.RelayedOf
	}
	if name == "" {
		return
	}
	switch from := c.destination(name); {
	case name == d.Name:
		s.bad(key, "names the destination itself; name the destination whose rows it takes")
	case from == nil:
		var names []string
		for _, d := range c.Destinations {
			names = append(names, d.Name)
		}
		s.bad(key, "names an unknown destination; OUTBOX_DESTINATIONS lists %s", strings.Join(names, ", "))
	case c.leadsBack(d):
		s.bad(key, "leads back to %s, so that neither would ever receive a row; one of them must take rows as they are "+
			"inserted", d.Name)
	case d.Columns == nil:
		s.bad(key, "requires columns of its own; set %s", s.origins["COLUMNS"].variable)
	case d.FailedOf != "" && from.Columns != nil && from.Columns["failed_at"] == "":
		s.bad(key, "names %s, whose columns do not include failed_at, so that no row fails there; add failed_at to them",
			name)
	}
}

// checkRows refuses a destination that can take no row, because earlier ones with the same columns take all of its
// topics.
func checkRows(c *Config, d *Destination, i int, s *scope) {
	var names []string
	var earlier [][]string
	for _, other := range c.Destinations[:i] {
		if d.sameOrigin(other) && maps.Equal(c.stateOf(other), c.stateOf(*d)) {
			names, earlier = append(names, other.Name), append(earlier, other.Topics)
		}
	}
	switch {
	case !pattern.TakesNone(d.Topics, earlier):
	case pattern.TakesNone(d.Topics, nil):
		s.bad("TOPICS", "excludes every topic that it includes, so that the destination takes no row; correct the patterns")
	default:
		s.bad("TOPICS", "leaves no row to the destination, since each row goes to the first destination that takes it, "+
			"which is always %s; to divide the rows, set topics or list this one first in OUTBOX_DESTINATIONS; for a copy of "+
			"each row, set %s to columns of its own", strings.Join(names, " or "), s.origins["COLUMNS"].variable)
	}
}

// stateOf returns the columns that keep a destination's state.
func (c *Config) stateOf(d Destination) StateColumns {
	if d.Columns == nil {
		return c.Table.state()
	}
	return d.Columns
}

// destination returns the destination with a name, nil if there is none.
func (c *Config) destination(name string) *Destination {
	i := slices.IndexFunc(c.Destinations, func(d Destination) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Destinations[i]
}

// leadsBack reports whether a destination's rows come from itself, by way of other destinations.
func (c *Config) leadsBack(d *Destination) bool {
	from := d
	for range c.Destinations {
		if from = c.destination(cmp.Or(from.FailedOf, from.RelayedOf)); from == nil || from == d {
			break
		}
	}
	return from == d
}

// state maps the relay's names of the columns that all destinations without their own share to the table's names.
func (t Table) state() StateColumns {
	state := StateColumns{}
	for _, ours := range writtenColumns {
		state[ours] = t.Column(ours)
	}
	return state
}

// shares returns one of a destination's columns that is already a column of the table, and its part there. Both are
// empty if there is none.
func (t Table) shares(own StateColumns) (ours, theirs string) {
	parts := map[string]string{}
	for _, ours := range ourColumns {
		parts[t.Column(ours)] = ours
	}
	for ours, theirs := range t.Columns {
		parts[theirs] = ours
	}
	if key := t.Key.source(); key.Kind == rowkey.Column {
		parts[key.Name] = "key"
	}
	for _, theirs := range slices.Sorted(maps.Values(own)) {
		if ours := parts[theirs]; ours != "" {
			return ours, theirs
		}
	}
	return "", ""
}

// common returns the columns of the table that two destinations share, sorted.
func common(a, b StateColumns) []string {
	theirs := slices.Collect(maps.Values(b))
	return slices.DeleteFunc(slices.Sorted(maps.Values(a)), func(column string) bool {
		return !slices.Contains(theirs,
			column)
	})
}

// leastBytes is the least share of the bytes in flight for each destination.
const leastBytes = 1 << 10

// checkShares checks that the destinations' own shares of the common bounds fit into these bounds, and leave something
// for the other destinations.
func checkShares(c *Config, scopes []*scope) {
	check := func(key, unit string, common, least int64, of func(Destination) int64) {
		var sum, others int64
		largest := 0
		for i, d := range c.Destinations {
			if of(d) == 0 {
				others++
			}
			if sum += of(d); of(d) > of(c.Destinations[largest]) {
				largest = i
			}
		}
		text := fmt.Sprintf("is too large: the shares of all destinations are %d %s in total, but %s%s is %d", sum, unit,
			Prefix,
			key, common)
		if others > 0 {
			text += " and must leave some for the destinations without a share of their own"
		}
		scopes[largest].badIf(sum > 0 && sum+others*least > common, key, "%s; lower one or raise the other", text)
	}
	check("MAX_IN_FLIGHT", "rows", int64(c.MaxInFlight), 1, func(d Destination) int64 { return int64(d.MaxInFlight) })
	check("MAX_IN_FLIGHT_BYTES", "bytes", c.MaxInFlightBytes, leastBytes,
		func(d Destination) int64 { return d.MaxInFlightBytes })
}
