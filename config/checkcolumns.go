package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/outbox-relay/outbox-relay/internal/destinations"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
)

// checkStates checks where the destinations keep their state: in the columns of the table, in the same columns as
// another destination, or in columns of their own. Columns that are the table's are not of its own: the destination
// divides the rows with others.
func checkStates(c *Config, scopes []*scope) {
	keys := map[string]string{
		"Topics": "TOPICS", "Columns": "COLUMNS", "FailedOf": "FAILED_OF", "RelayedOf": "RELAYED_OF",
	}
	var all []destinations.Destination
	for i, s := range scopes {
		d := &c.Destinations[i]
		s.badIf(d.MaxAge > 0 && d.Columns != nil && d.Columns["failed_at"] == "", "MAX_AGE",
			"requires a column for failed_at, but %s does not name one; add it or remove the setting",
			s.at("COLUMNS").variable)
		if maps.Equal(d.Columns, c.Table.state()) {
			d.Columns = nil
		}
		part, column := c.Table.shares(d.Columns)
		s.badIf(part != "", "COLUMNS", "uses the column %s, which is the table's %s; each column must belong to the "+
			"destination alone", column, part)
		all = append(all, destinations.Destination{
			Name: d.Name, Topics: d.Topics, Columns: d.Columns, FailedOf: d.FailedOf, RelayedOf: d.RelayedOf,
			Field: func(field string) string { return s.at(keys[field]).variable },
		})
	}
	deletes := ""
	if c.Settle == SettleDelete {
		deletes = Prefix + "SETTLE=" + SettleDelete
	}
	for _, p := range destinations.Check(all, Prefix+"DESTINATIONS", deletes) {
		scopes[p.Destination].bad(keys[p.Field], "%s", p.Text)
	}
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
		text := fmt.Sprintf("is too large: the shares of all destinations are %d %s in total, but %s%s is %d", sum,
			unit, Prefix,
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
