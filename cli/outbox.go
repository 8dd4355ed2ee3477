package cli

import (
	"context"
	"fmt"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/route"
)

// openOutbox opens the table as each destination sees it, over connections of its own. It connects to no broker.
func openOutbox(ctx context.Context, c *config.Config) (*operate.Outbox, error) {
	settings, routes := rowsOnly(c)
	r, database := c.Config, c.Database
	// A pooler lends its sessions for one transaction each, with whatever settings they have.
	database.URL = database.DirectURL
	pool, closePool, err := openPool(ctx, database, &r)
	if err != nil {
		return nil, usageError(err)
	}
	o := &operate.Outbox{Pool: pool, Connect: r.Connect, Shards: settings.Shards, Close: closePool}
	table, err := outbox.Open(ctx, pool, settings)
	if err != nil {
		o.Close()
		return nil, err
	}
	for i, v := range settings.Views {
		seen, err := table.For(v)
		if err != nil { // commands that change rows must know the state of all destinations
			o.Close()
			return nil, fmt.Errorf("destination %s: %w", v.Name, err)
		}
		o.Views = append(o.Views, seen)
		o.Topics = append(o.Topics, routes[i].Topic.SQL(seen.Topic.Name+"::text", seen.Extra()))
	}
	return o, nil
}

// planOf returns how the settings' relay understands its table, and where the rows go. The relay does the same with its
// own configuration, which has no types that only this module can name.
func planOf(c *config.Config) (plan outbox.Config, routes []*route.Route) {
	plan = outbox.Config{
		Columns: c.Columns, Delete: c.Delete, MaxRow: c.MaxRowBytes, Shards: c.Shards,
		Names: c.SettingName,
	}
	for i := range c.Destinations {
		d := &c.Destinations[i]
		routes = append(routes, &route.Route{
			View: outbox.View{
				Name: d.Name, Filter: outbox.Filter{Topics: d.Topics}, Columns: d.Columns, Names: d.SettingName,
				BlockFailed: d.BlockFailed, Optional: d.Optional, Expires: d.MaxAge > 0,
			},
			FailedFrom: d.FailedOf, RelayedFrom: d.RelayedOf,
			Encoding: route.Encoding(d.PayloadEncoding), DedupPrefix: d.DedupPrefix,
			TopicText: d.Topic, ExchangeText: d.Exchange, TimeColumn: d.TimeColumn, WireFormat: d.WireFormat,
		})
	}
	plan, _ = route.Plan(plan, c.Table, c.Key, routes) // config has reported problems
	return plan, routes
}

// rowsOnly returns the table's configuration for commands that examine rows and publish none. A template that names
// what the table lacks does not keep them from the table: the topics of such messages are NULL.
func rowsOnly(c *config.Config) (outbox.Config, []*route.Route) {
	plan, routes := planOf(c)
	plan.Looks = true
	for i := range plan.Views {
		plan.Views[i].Extra = []int{}
	}
	return plan, routes
}
