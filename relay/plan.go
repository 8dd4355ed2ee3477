package relay

import (
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/route"
)

// Check fills in the defaults and returns what is wrong with the configuration: every field that cannot be used.
// Publishers may be missing.
func (c *Config) Check() []*FieldError {
	_, _, found := c.plan()
	return found
}

// plan returns how the relay understands its table, and where the rows of each destination go. It fills in the
// defaults. The problems are the fields that cannot be used.
func (c *Config) plan() (plan outbox.Config, routes []*route.Route, p problems) {
	p = c.complete()
	for i, d := range c.Destinations {
		routes = append(routes, &route.Route{
			View: outbox.View{
				Name: d.Name, Filter: outbox.Filter{Topics: d.Topics}, Columns: d.Columns,
				BlockFailed: d.BlockFailed, Optional: d.Optional, Expires: d.MaxAge > 0,
				Names: func(name string) string { return (&FieldError{i, name, ""}).name() },
			},
			FailedFrom: d.FailedOf, RelayedFrom: d.RelayedOf,
			Encoding: route.Encoding(d.PayloadEncoding), DedupPrefix: d.DedupPrefix,
			TopicText: d.Topic, ExchangeText: d.Exchange, TimeColumn: d.TimeColumn, WireFormat: d.WireFormat,
		})
		if d.SettingName != nil {
			routes[i].Names = d.SettingName
		}
	}
	plan, found := route.Plan(outbox.Config{
		Columns: c.Columns, Delete: c.Delete, MaxRow: c.MaxRowBytes, Channel: c.channel(), Shards: c.Shards,
		Names: c.SettingName,
	}, c.Table, c.Key, routes)
	for _, f := range found {
		one := FieldError(f)
		p = append(p, &one)
	}
	return plan, routes, p
}
