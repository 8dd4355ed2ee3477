package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/rowkey"
)

// checkStates checks where the destinations keep their state: in the columns of the table, in the same ones as another
// destination, or in some that are no other's.
func checkStates(cfg *Config, scopes []*scope) {
	for i, s := range scopes {
		d := &cfg.Destinations[i]
		checkOrigin(cfg, d, s)
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
				s.bad("COLUMNS",
					"has %s in common with %s, and not the others; the columns of two destinations are the same, or all different",
					strings.Join(shared, ", "), scopes[j].origins["COLUMNS"].variable)
			} else if len(shared) > 0 && (d.FailedOf != other.FailedOf || d.RelayedOf != other.RelayedOf) {
				s.bad("COLUMNS", "is the same as %s, and these two do not take the same rows; give each columns of its own",
					scopes[j].origins["COLUMNS"].variable)
			}
		}
	}
}

// checkOrigin checks what a destination takes that waits for what becomes of rows at another one.
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
			s.bad(key, "names the destination itself; name the one whose rows it is to take")
		case from == nil:
			s.bad(key, "names no destination; those of OUTBOX_DESTINATIONS are %s", strings.Join(cfg.names(), ", "))
		case cfg.leadsBack(d):
			s.bad(key, "leads back to %s, so that neither would ever get a row; let one of them take rows as they are inserted", d.Name)
		case d.Columns == nil:
			s.bad(key, "needs columns of its own; set %s", s.origins["COLUMNS"].variable)
		case key == "FAILED_OF" && from.Columns != nil && from.Columns["failed_at"] == "":
			s.bad(key, "names %s, whose columns have no failed_at, so that no row fails there; add failed_at to them", name)
		}
	}
}

// destination returns that of a name, nil if there is none.
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

// leadsBack reports whether what a destination takes comes from itself, by way of others.
func (c *Config) leadsBack(d *Destination) bool {
	from := d
	for range c.Destinations {
		if from = c.destination(cmp.Or(from.FailedOf, from.RelayedOf)); from == nil || from == d {
			break
		}
	}
	return from == d
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
	if t.Key.Kind == rowkey.Column {
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
