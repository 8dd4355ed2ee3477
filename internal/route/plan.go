package route

import (
	"fmt"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/profile"
)

// Plan parses the texts of all routes, and returns the table's configuration with everything that the routes need of
// its rows.
func Plan(table outbox.Config, routes []*Route) (outbox.Config, error) {
	var err error
	for _, to := range routes {
		if to.Topic, table.Extra, err = ParseTemplate(to.TopicText, table.Extra); err != nil {
			return table, err
		}
		if to.ExchangeText != "" {
			to.Exchange = new(Template)
			if *to.Exchange, table.Extra, err = ParseTemplate(to.ExchangeText, table.Extra); err != nil {
				return table, err
			}
		}
		if to.TimeColumn != "" {
			to.Time, table.Extra = TimeFrom(to.TimeColumn, table.Extra)
		}
		if table.Preferred == nil {
			table.Preferred = profile.Columns(to.WireFormat)
		}
	}
	if len(table.Extra) > outbox.MostExtra {
		return table, fmt.Errorf("have templates that name more than %d columns, headers and paths together",
			outbox.MostExtra)
	}
	table.Headers, table.Views = outbox.HeaderColumns(table.Columns), Views(routes)
	return table, nil
}
