package relay

import (
	"maps"
	"slices"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/outbox"
)

// Views returns how the destinations see the table. Those that keep their state in the same columns divide the rows: each row goes to the
// first of them that takes it.
func Views(destinations []*Destination) []outbox.View {
	views := make([]outbox.View, len(destinations))
	for i, d := range destinations {
		views[i] = view(destinations, d)
	}
	return views
}

// view returns how one of the destinations sees the table.
func view(destinations []*Destination, to *Destination) outbox.View {
	v := outbox.View{Name: to.Name, Columns: to.Columns, BlockFailed: to.BlockFailed, Filter: outbox.Filter{Topics: to.Topics}}
	for _, d := range destinations {
		if d == to {
			break
		}
		if to.Name == nowhereName || maps.Equal(d.Columns, to.Columns) {
			v.Before = append(v.Before, d.Topics)
		}
	}
	return v
}

// withNowhere adds nowhere to the destinations if there may be rows that none of them takes.
func withNowhere(destinations []*Destination) []*Destination {
	everything := func(d *Destination) bool { return pattern.SQL("topic", d.Topics) == pattern.Always }
	if len(destinations) == 0 || slices.ContainsFunc(destinations, everything) {
		return destinations
	}
	rest := nowhere()
	if !slices.ContainsFunc(destinations, func(d *Destination) bool { return d.Columns == nil }) {
		rest.Columns = destinations[0].Columns // nobody keeps the others up to date
	}
	return append(slices.Clip(destinations), rest)
}
