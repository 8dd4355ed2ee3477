package config

import (
	"maps"
	"slices"
	"strings"
)

// checkStates checks where the destinations keep their state: in the columns of the table, in the same ones as another
// destination, or in some that are no other's.
func checkStates(cfg *Config, scopes []*scope) {
	for i, s := range scopes {
		d := &cfg.Destinations[i]
		if d.Columns == nil {
			continue
		}
		if cfg.Settle == SettleDelete {
			s.bad("COLUMNS", "contradicts OUTBOX_SETTLE=delete, which deletes a row as soon as one destination has it; remove one of them")
		}
		if maps.Equal(d.Columns, cfg.Table.state()) {
			d.Columns = nil
			continue
		}
		if ours, theirs := cfg.Table.shares(d.Columns); ours != "" {
			s.bad("COLUMNS", "takes the column %s, which is the table's %s; each must be a column of the destination's own", theirs, ours)
			continue
		}
		for j, other := range cfg.Destinations[:i] {
			if shared := common(d.Columns, other.Columns); len(shared) > 0 && !maps.Equal(d.Columns, other.Columns) {
				s.bad("COLUMNS", "has %s in common with %s, and not the others; the columns of two destinations are the same, or all different",
					strings.Join(shared, ", "), scopes[j].origins["COLUMNS"].variable)
			}
		}
	}
}

// state maps our names of the columns that all destinations have in common, unless they have their own, to the table's.
func (t Table) state() StateColumns {
	state := StateColumns{}
	for _, ours := range writtenColumns {
		state[ours] = t.Column(ours)
	}
	return state
}

// shares returns one of a destination's columns that is already the table's, and what it is there. Both are empty if there is none.
func (t Table) shares(own StateColumns) (ours, theirs string) {
	parts := map[string]string{}
	for _, ours := range ourColumns {
		parts[t.Column(ours)] = ours
	}
	for ours, theirs := range t.Columns {
		parts[theirs] = ours
	}
	if t.Key.Kind == KeyColumn {
		parts[t.Key.Name] = "key"
	}
	for _, theirs := range slices.Sorted(maps.Values(own)) {
		if ours := parts[theirs]; ours != "" {
			return ours, theirs
		}
	}
	return "", ""
}

// common returns the columns of the table that two destinations both have, sorted.
func common(a, b StateColumns) []string {
	theirs := slices.Collect(maps.Values(b))
	return slices.DeleteFunc(slices.Sorted(maps.Values(a)), func(column string) bool { return !slices.Contains(theirs, column) })
}
