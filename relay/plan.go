package relay

import (
	"errors"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/route"
)

// plan returns how the relay understands its table, and where the rows of each destination go. The defaults must have
// been filled in. The error names every field that cannot be used.
func (c *Config) plan() (plan outbox.Config, routes []*route.Route, err error) {
	p := c.check()
	for i, d := range c.Destinations {
		routes = append(routes, &route.Route{
			View: outbox.View{
				Name: d.Name, Filter: outbox.Filter{Topics: d.Topics}, Columns: d.Columns,
				BlockFailed: d.BlockFailed, Optional: d.Optional, Expires: d.MaxAge > 0,
				Names: func(name string) string { return fieldOf(i, name) },
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
	wrong := len(p) > 0
	for _, f := range found {
		switch {
		case f.Destination < 0:
			p = append(p, &FieldError{f.Field, f.Text})
		case f.Field != "Topics" || !wrong: // which rows are left may depend on what is wrong
			p = append(p, &FieldError{fieldOf(f.Destination, f.Field), f.Text})
		}
	}
	return plan, routes, errors.Join(p...)
}
