package cli

import (
	"log/slog"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/sql"
)

// planOf returns how the settings' relay understands its table, and where the rows go, for commands that look at the
// same rows.
func planOf(c *config.Config) (outbox.Config, []*route.Route, error) {
	table, err := sql.ParseTable(c.Table.Name)
	if err != nil {
		return outbox.Config{}, nil, err
	}
	var key rowkey.Source
	if err := key.UnmarshalText([]byte(c.Table.Key)); c.Table.Key != "" && err != nil {
		return outbox.Config{}, nil, err
	}
	var sources []route.Source
	for _, d := range relayConfig(c, slog.New(slog.DiscardHandler)).Destinations {
		sources = append(sources, route.Source{
			Route: route.Route{
				Name: d.Name, Topics: d.Topics, Columns: d.Columns, FailedOf: d.FailedOf, RelayedOf: d.RelayedOf,
				BlockFailed: d.BlockFailed, Optional: d.Optional, Expires: d.MaxAge > 0,
				Names: d.SettingName, Encoding: route.Encoding(d.PayloadEncoding), DedupPrefix: d.DedupPrefix,
			},
			TopicText: d.Topic, ExchangeText: d.Exchange, TimeColumn: d.TimeColumn, WireFormat: d.WireFormat,
		})
	}
	return route.Plan(outbox.Config{
		Table: table, Columns: c.Table.Columns, Headers: outbox.HeaderColumns(c.Table.Columns), Key: key,
		Delete: c.Settle == config.SettleDelete, MaxRow: c.MaxRowBytes, Channel: c.ListenChannel, Shards: c.Shards,
		Names: settingNames(c, nil),
	}, sources)
}
