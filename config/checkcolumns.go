package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
)

// checkStates checks where the destinations keep their state: in the columns of the table, in the same columns as another
// destination, or in columns of their own.
func checkStates(cfg *Config, scopes []*scope) {
	for i, s := range scopes {
		d := &cfg.Destinations[i]
		checkOrigin(cfg, d, s)
		checkRows(cfg, scopes, i)
		if d.Columns == nil {
			continue
		}
		if cfg.Settle == SettleDelete {
			s.bad("COLUMNS", "contradicts OUTBOX_SETTLE=delete, which deletes a row as soon as one destination has relayed it; remove one of them")
		}
		if maps.Equal(d.Columns, cfg.Table.state()) {
			d.Columns = nil
			continue
		}
		if ours, theirs := cfg.Table.shares(d.Columns); ours != "" {
			s.bad("COLUMNS", "uses the column %s, which is the table's %s; each column must belong to the destination alone", theirs, ours)
			continue
		}
		for j, other := range cfg.Destinations[:i] {
			if shared := common(d.Columns, other.Columns); len(shared) > 0 && !maps.Equal(d.Columns, other.Columns) {
				s.bad("COLUMNS",
					"shares only %s with %s; two destinations must have either the same columns or no column in common",
					strings.Join(shared, ", "), scopes[j].origins["COLUMNS"].variable)
			} else if len(shared) > 0 && (d.FailedOf != other.FailedOf || d.RelayedOf != other.RelayedOf) {
				s.bad("COLUMNS", "is the same as %s, but these two destinations do not take the same rows; set separate columns for each",
					scopes[j].origins["COLUMNS"].variable)
			}
		}
	}
}

// checkOrigin checks the rows of a destination that takes what has failed or been relayed at another destination.
func checkOrigin(cfg *Config, d *Destination, s *scope) {
	for _, key := range []string{"FAILED_OF", "RELAYED_OF"} {
		name := map[string]string{"FAILED_OF": d.FailedOf, "RELAYED_OF": d.RelayedOf}[key]
		if name == "" {
			continue
		}
		from := cfg.destination(name)
		switch {
		case key == "RELAYED_OF" && d.FailedOf != "":
			s.bad(key, "contradicts %s; remove one of them", s.origins["FAILED_OF"].variable)
		case name == d.Name:
			s.bad(key, "names the destination itself; name the destination whose rows it takes")
		case from == nil:
			s.bad(key, "names an unknown destination; OUTBOX_DESTINATIONS lists %s", strings.Join(cfg.names(), ", "))
		case cfg.leadsBack(d):
			s.bad(key, "leads back to %s, so that neither would ever receive a row; one of them must take rows as they are inserted", d.Name)
		case d.Columns == nil:
			s.bad(key, "requires columns of its own; set %s", s.origins["COLUMNS"].variable)
		case key == "FAILED_OF" && from.Columns != nil && from.Columns["failed_at"] == "":
			s.bad(key, "names %s, whose columns do not include failed_at, so that no row fails there; add failed_at to them", name)
		}
	}
}

// checkRows refuses a destination that can take no row, because earlier ones with the same columns take all of its topics.
func checkRows(cfg *Config, scopes []*scope, i int) {
	d := &cfg.Destinations[i]
	var names []string
	var earlier [][]string
	for _, other := range cfg.Destinations[:i] {
		same := d.FailedOf == other.FailedOf && d.RelayedOf == other.RelayedOf
		if same && maps.Equal(cfg.stateOf(other), cfg.stateOf(*d)) {
			names, earlier = append(names, other.Name), append(earlier, other.Topics)
		}
	}
	s := scopes[i]
	switch {
	case !pattern.TakesNone(d.Topics, earlier):
	case pattern.TakesNone(d.Topics, nil):
		s.bad("TOPICS", "excludes every topic that it includes, so that the destination takes no row; correct the patterns")
	default:
		s.bad("TOPICS", "leaves no row to the destination, since each row goes to the first destination that takes it, which is "+
			"always %s; to divide the rows, set topics or list this one first in OUTBOX_DESTINATIONS; for a copy of each row, "+
			"set %s to columns of its own",
			strings.Join(names, " or "), s.origins["COLUMNS"].variable)
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
	for i := range c.Destinations {
		if c.Destinations[i].Name == name {
			return &c.Destinations[i]
		}
	}
	return nil
}

func (c *Config) names() (names []string) {
	for _, d := range c.Destinations {
		names = append(names, d.Name)
	}
	return names
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

// shares returns one of a destination's columns that is already a column of the table, and its part there. Both are empty if
// there is none.
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
	return slices.DeleteFunc(slices.Sorted(maps.Values(a)), func(column string) bool { return !slices.Contains(theirs, column) })
}
