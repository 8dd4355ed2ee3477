package relay

import (
	"errors"
	"fmt"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Plan returns how the relay understands its table, and where the rows of each destination go, for programs that look
// at the table beside a relay. Of the configuration it needs Table, and of each destination the Topic.
func (c *Config) Plan() (plan outbox.Config, routes []*route.Route, err error) {
	plan = outbox.Config{
		Columns: c.Columns, Headers: outbox.HeaderColumns(c.Columns), Delete: c.Delete,
		MaxRow: c.MaxRowBytes, Channel: c.channel(), Shards: c.Shards, Names: c.SettingName,
	}
	if plan.Table, err = sql.ParseTable(c.Table); err != nil {
		return plan, nil, err
	}
	if c.Key != "" {
		if err = plan.Key.UnmarshalText([]byte(c.Key)); err != nil {
			return plan, nil, err
		}
	}
	var sources []route.Source
	for _, d := range c.Destinations {
		sources = append(sources, route.Source{
			Route: route.Route{
				Name: d.Name, Topics: d.Topics, Columns: d.Columns, FailedOf: d.FailedOf, RelayedOf: d.RelayedOf,
				BlockFailed: d.BlockFailed, Optional: d.Optional, Expires: d.MaxAge > 0,
				Names: d.SettingName, Encoding: route.Encoding(d.PayloadEncoding), DedupPrefix: d.DedupPrefix,
			},
			TopicText: d.Topic, ExchangeText: d.Exchange, TimeColumn: d.TimeColumn, WireFormat: d.WireFormat,
		})
	}
	plan, routes, err = route.Plan(plan, sources)
	if wrong, ok := errors.AsType[*route.SourceError](err); ok {
		return plan, nil, &FieldError{
			fmt.Sprintf("Destinations[%d].%s", wrong.Destination, wrong.Field), wrong.Err.Error(),
		}
	}
	return plan, routes, err
}
