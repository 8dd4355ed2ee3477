package relay

import (
	"errors"
	"fmt"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/sql"
)

// understand returns how the table is read, and sets how the messages of each destination are made. Everything but the
// number of columns that all templates name together has been checked.
func (c *Config) understand() (plan outbox.Config, err error) {
	table, _ := sql.ParseTable(c.Table)
	plan = outbox.Config{
		Table: table, Columns: c.Columns, Headers: outbox.HeaderColumns(c.Columns), Delete: c.Delete,
		MaxRow: c.MaxRowBytes, Channel: c.channel(), Shards: c.Shards, Names: c.SettingName,
	}
	if c.Key != "" {
		_ = plan.Key.UnmarshalText([]byte(c.Key))
	}
	plan, routes, err := route.Plan(plan, sources(c.Destinations))
	if wrong, ok := errors.AsType[*route.SourceError](err); ok {
		return plan, &FieldError{fmt.Sprintf("Destinations[%d].%s", wrong.Destination, wrong.Field), wrong.Err.Error()}
	}
	if err != nil {
		return plan, err
	}
	for i, d := range c.Destinations {
		d.route = *routes[i]
		if d.profile, err = profile.New(d.WireFormat, publisher.ProtocolOf(d.Publisher),
			profile.Options{Source: d.CloudEventsSource, Tombstones: d.DebeziumTombstones}); err != nil {
			return plan, err
		}
	}
	return plan, nil
}

// sources returns what decides which rows the destinations take, and where these go.
func sources(destinations []*Destination) (all []route.Source) {
	for _, d := range destinations {
		all = append(all, route.Source{
			Route: route.Route{
				Name: d.Name, Topics: d.Topics, Columns: d.Columns, FailedOf: d.FailedOf, RelayedOf: d.RelayedOf,
				BlockFailed: d.BlockFailed, Optional: d.Optional, Expires: d.MaxAge > 0,
				Names: d.SettingName, Encoding: route.Encoding(d.PayloadEncoding), DedupPrefix: d.DedupPrefix,
			},
			TopicText: d.Topic, ExchangeText: d.Exchange, TimeColumn: d.TimeColumn, WireFormat: d.WireFormat,
		})
	}
	return all
}
