package relay

import (
	"fmt"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Plan returns how a relay of this configuration understands its table and where the rows go. It is for the commands of
// outbox-relay that look at the same rows; the types are not meant for other users.
func (c Config) Plan() (plan outbox.Config, routes []*route.Route, err error) {
	c.fillIn()
	plan = outbox.Config{
		Columns: c.Columns, Headers: outbox.HeaderColumns(c.Columns), Delete: c.Delete, MaxRow: c.MaxRowBytes,
		Channel: c.channel(), Shards: c.Shards, Names: c.SettingName,
	}
	if plan.Table, err = sql.ParseTable(c.Table); err != nil {
		return plan, nil, &FieldError{"Table", "is not the name of a table: write table or schema.table"}
	}
	if err := plan.Key.UnmarshalText([]byte(c.Key)); c.Key != "" && err != nil {
		return plan, nil, &FieldError{"Key", err.Error()}
	}
	for i, d := range c.Destinations {
		field := func(name string, err error) error {
			return &FieldError{fmt.Sprintf("Destinations[%d].%s", i, name), err.Error()}
		}
		if d.route.Topic, plan.Extra, err = route.ParseTemplate(d.Topic, plan.Extra); err != nil {
			return plan, nil, field("Topic", err)
		}
		if d.Exchange != "" {
			exchange, extra, err := route.ParseTemplate(d.Exchange, plan.Extra)
			if err != nil {
				return plan, nil, field("Exchange", err)
			}
			d.route.Exchange, plan.Extra = &exchange, extra
		}
		if d.TimeColumn != "" {
			d.route.Time, plan.Extra = route.TimeFrom(d.TimeColumn, plan.Extra)
		}
		if d.PayloadEncoding != "" {
			d.route.Encoding = route.Encoding(d.PayloadEncoding)
		}
		if plan.Preferred == nil {
			plan.Preferred = profile.Columns(d.WireFormat)
		}
	}
	routes = routesOf(c.Destinations)
	plan.Views = route.Views(routes)
	return plan, routes, nil
}

// formats sets how the messages of each destination are made.
func (c *Config) formats() (err error) {
	for _, d := range c.Destinations {
		if d.profile, err = profile.New(d.WireFormat, publisher.ProtocolOf(d.Publisher),
			profile.Options{Source: d.CloudEventsSource, Tombstones: d.DebeziumTombstones}); err != nil {
			return err // unreachable: check has found this name
		}
	}
	return nil
}

// routesOf returns the routes of destinations, with everything that decides which rows go there.
func routesOf(destinations []*Destination) []*route.Route {
	routes := make([]*route.Route, len(destinations))
	for i, d := range destinations {
		routes[i] = d.whole()
	}
	return routes
}

// viewsOf returns the destinations' views of the table.
func viewsOf(destinations []*Destination) []outbox.View { return route.Views(routesOf(destinations)) }
