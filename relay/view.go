package relay

import (
	"maps"
	"slices"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
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
	v := outbox.View{Name: to.Name, Columns: to.Columns, BlockFailed: to.BlockFailed, Expires: to.MaxAge > 0,
		Filter: outbox.Filter{Topics: to.Topics}}
	for _, d := range destinations {
		if d == to {
			break
		}
		if to.Name == nowhereName && d.plain() || to.Name != nowhereName && maps.Equal(d.Columns, to.Columns) {
			v.Before = append(v.Before, d.Topics)
		}
	}
	v.FailedOf, v.RelayedOf = viewOf(destinations, to.FailedOf), viewOf(destinations, to.RelayedOf)
	return v
}

// viewOf returns how the destination of a name sees the table, nil for no name.
func viewOf(destinations []*Destination, name string) *outbox.View {
	for _, d := range destinations {
		if name != "" && d.Name == name {
			v := view(destinations, d)
			return &v
		}
	}
	return nil
}

// plain reports whether a destination takes rows as they are inserted, not for what became of them elsewhere.
func (d *Destination) plain() bool { return d.FailedOf == "" && d.RelayedOf == "" }

// withNowhere adds nowhere to the destinations if there may be rows that none of them takes.
func withNowhere(destinations []*Destination) []*Destination {
	everything := func(d *Destination) bool { return d.plain() && pattern.SQL("topic", d.Topics) == pattern.Always }
	if len(destinations) == 0 || slices.ContainsFunc(destinations, everything) {
		return destinations
	}
	rest := nowhere()
	plain := slices.DeleteFunc(slices.Clone(destinations), func(d *Destination) bool { return !d.plain() })
	if len(plain) == 0 {
		return destinations
	}
	if !slices.ContainsFunc(plain, func(d *Destination) bool { return d.Columns == nil }) {
		rest.Columns = plain[0].Columns // nobody keeps those of the table up to date
	}
	return append(slices.Clip(destinations), rest)
}
