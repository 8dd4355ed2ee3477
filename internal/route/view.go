package route

import (
	"maps"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// Views returns the destinations' views of the table. Destinations that keep their state in the same columns divide the
// rows: each row goes to the first of them that takes it.
func Views(routes []*Route) []outbox.View {
	views := make([]outbox.View, len(routes))
	for i, d := range routes {
		views[i] = view(routes, d)
	}
	return views
}

// view returns one destination's view of the table.
func view(routes []*Route, to *Route) outbox.View {
	v := outbox.View{
		Name: to.Name, Optional: to.Optional, Columns: to.Columns, BlockFailed: to.BlockFailed,
		Expires: to.Expires, Names: to.Names,
		Filter: outbox.Filter{Topics: to.Topics}, Encoded: to.Encoding != EncodingNone, Extra: to.extra(),
	}
	for _, d := range routes {
		if d == to {
			break
		}
		if maps.Equal(d.Columns, to.Columns) {
			v.Before = append(v.Before, d.Topics)
		}
	}
	v.FailedOf, v.RelayedOf = viewOf(routes, to.FailedOf), viewOf(routes, to.RelayedOf)
	return v
}

// extra returns the indexes of the texts of which the destination's messages are made.
func (d *Route) extra() []int {
	used := []int{}
	for _, t := range []*Template{&d.Topic, d.Exchange} {
		if t == nil {
			continue
		}
		for _, p := range t.parts {
			if p.extra >= 0 {
				used = append(used, p.extra)
			}
		}
	}
	if d.Time != nil {
		used = append(used, d.Time.extra)
	}
	return used
}

// viewOf returns the view of the destination with a name, nil for no name.
func viewOf(routes []*Route, name string) *outbox.View {
	for _, d := range routes {
		if name != "" && d.Name == name {
			v := view(routes, d)
			return &v
		}
	}
	return nil
}

// Plain reports whether a destination takes rows as they are inserted, not after they failed or were relayed elsewhere.
func (d *Route) Plain() bool { return d.FailedOf == "" && d.RelayedOf == "" }
