package cli

import (
	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay"
)

// newDestination makes what of a destination says which rows it takes, and where it keeps what becomes of them.
func newDestination(d config.Destination) *relay.Destination {
	return &relay.Destination{Name: d.Name, Topics: d.Topics, Columns: d.Columns, FailedOf: d.FailedOf, RelayedOf: d.RelayedOf,
		MaxAge: d.MaxAge}
}

// views returns how the destinations see the table.
func views(c *config.Config) []outbox.View {
	var destinations []*relay.Destination
	for _, d := range c.Destinations {
		destinations = append(destinations, newDestination(d))
	}
	return relay.Views(destinations)
}
