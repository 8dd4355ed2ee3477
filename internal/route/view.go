package route

import "github.com/outbox-relay/outbox-relay/internal/outbox"

// connect sets in the routes' views what follows from their other fields and from the other routes, and returns the
// views. Destinations that keep their state in the same columns divide the rows: each row goes to the first of them
// that takes it.
func connect(routes []*Route) []outbox.View {
	named := map[string]*outbox.View{}
	for i, to := range routes {
		to.Encoded, to.Before = to.Encoding.decodes(), nil
		for _, earlier := range routes[:i] {
			if earlier.SameColumns(to.View) {
				to.Before = append(to.Before, earlier.Topics)
			}
		}
		named[to.Name] = &to.View
	}
	views := make([]outbox.View, len(routes))
	for i, to := range routes {
		if to.FailedFrom != "" {
			to.FailedOf = named[to.FailedFrom]
		}
		if to.RelayedFrom != "" {
			to.RelayedOf = named[to.RelayedFrom]
		}
		views[i] = to.View
	}
	return views
}
