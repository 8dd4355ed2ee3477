package relay

import (
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/sql"
)

// plan returns how the relay understands its table, and where the rows of each destination go.
func (c *Config) plan() (plan outbox.Config, routes []*route.Route, err error) {
	plan = outbox.Config{
		Columns: c.Columns, Delete: c.Delete, MaxRow: c.MaxRowBytes, Channel: c.channel(), Shards: c.Shards,
		Names: c.SettingName,
	}
	if plan.Table, err = sql.ParseTable(c.Table); err != nil {
		return plan, nil, err
	}
	if c.Key != "" {
		if err = plan.Key.UnmarshalText([]byte(c.Key)); err != nil {
			return plan, nil, err
		}
	}
	routes = c.routes()
	if plan, err = route.Plan(plan, routes); err != nil {
		return plan, nil, &FieldError{"Destinations", err.Error()}
	}
	return plan, routes, nil
}

// routes returns what decides which rows the destinations take, and where these go.
func (c *Config) routes() (all []*route.Route) {
	for _, d := range c.Destinations {
		all = append(all, &route.Route{
			Name: d.Name, Topics: d.Topics, Columns: d.Columns, FailedOf: d.FailedOf, RelayedOf: d.RelayedOf,
			BlockFailed: d.BlockFailed, Optional: d.Optional, Expires: d.MaxAge > 0,
			Names: d.SettingName, Encoding: route.Encoding(d.PayloadEncoding), DedupPrefix: d.DedupPrefix,
			TopicText: d.Topic, ExchangeText: d.Exchange, TimeColumn: d.TimeColumn, WireFormat: d.WireFormat,
		})
	}
	return all
}
