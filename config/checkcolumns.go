package config

import (
	"cmp"
	"maps"
	"slices"

	"github.com/outbox-relay/outbox-relay/internal/route"
)

// checkStates checks where the destinations keep their state: in the columns of the table, in the same columns as
// another destination, or in columns of their own. Columns that are the table's are not of its own: the destination
// divides the rows with others. parts are the relay's names of the table's columns.
func checkStates(c *Config, parts map[string]string) {
	keys := map[string]string{
		"Topics": "TOPICS", "Columns": "COLUMNS", "FailedOf": "FAILED_OF", "RelayedOf": "RELAYED_OF",
	}
	var all []*route.Route
	for i := range c.Destinations {
		d := &c.Destinations[i]
		s := d.scope
		s.badIf(d.MaxAge > 0 && d.Columns != nil && d.Columns["failed_at"] == "", "MAX_AGE",
			"requires a column for failed_at, but %s does not name one; add it or remove the setting",
			s.at("COLUMNS").variable)
		if maps.Equal(d.Columns, c.Table.state()) {
			d.Columns = nil
		}
		for _, column := range slices.Sorted(maps.Values(d.Columns)) {
			s.badIf(parts[column] != "", "COLUMNS", "uses the column %s, which is the table's %s; each column must "+
				"belong to the destination alone", column, parts[column])
		}
		r := &route.Route{FailedFrom: d.FailedOf, RelayedFrom: d.RelayedOf}
		r.Name, r.Columns, r.Topics = d.Name, d.Columns, d.Topics
		r.Names = func(field string) string { return s.at(keys[field]).variable }
		all = append(all, r)
	}
	deletes := ""
	if c.Settle == SettleDelete {
		deletes = Prefix + "SETTLE=" + SettleDelete
	}
	for _, p := range route.Check(all, Prefix+"DESTINATIONS", deletes) {
		c.Destinations[p.Destination].scope.bad(keys[p.Field], "%s", p.Text)
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

// leastBytes is the least share of the bytes in flight for each destination.
const leastBytes = 1 << 10

// checkShares checks that the destinations' own shares of the common bounds fit into these bounds, and leave something
// for the other destinations.
func checkShares(c *Config) {
	check := func(key, unit string, common, least int64, of func(Destination) int64) {
		var sum int64
		largest := c.Destinations[0]
		for _, d := range c.Destinations {
			if sum += cmp.Or(of(d), least); of(d) > of(largest) {
				largest = d
			}
		}
		largest.scope.badIf(of(largest) > 0 && sum > common, key, "is too large: the shares of all "+
			"destinations (at least %d for each) are %d %s in total, but %s%s is %d; lower one or raise the other",
			least, sum, unit, Prefix, key, common)
	}
	check("MAX_IN_FLIGHT", "rows", int64(c.MaxInFlight), 1, func(d Destination) int64 { return int64(d.MaxInFlight) })
	check("MAX_IN_FLIGHT_BYTES", "bytes", c.MaxInFlightBytes, leastBytes,
		func(d Destination) int64 { return d.MaxInFlightBytes })
}
