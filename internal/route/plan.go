package route

import (
	"errors"
	"fmt"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Plan parses the name of the table, the source of the ordering key (unless it is empty) and the texts of all
// routes, and checks whether these fit together. It adds to the table's configuration what the texts say and what the
// routes need of its rows, unless there are problems.
func Plan(table outbox.Config, name, key string, routes []*Route) (_ outbox.Config, found []Problem) {
	bad := func(destination int, field string, err error) {
		if err != nil {
			found = append(found, Problem{destination, field, err.Error()})
		}
	}
	var err error
	if table.Table, err = sql.ParseTable(name); err != nil {
		bad(ofTable, "Table", errors.New("is not the name of a table: write table or schema.table, a name with a dot "+
			"in double quotes"))
	}
	if key != "" {
		bad(ofTable, "Key", table.Key.UnmarshalText([]byte(key)))
	}
	extra := &Extra{}
	for i, to := range routes {
		extra.Used = []int{}
		to.Topic, err = ParseTemplate(to.TopicText, extra)
		bad(i, "Topic", err)
		if to.ExchangeText != "" {
			to.Exchange = new(Template)
			*to.Exchange, err = ParseTemplate(to.ExchangeText, extra)
			bad(i, "Exchange", err)
		}
		if to.TimeColumn != "" {
			to.Time = TimeFrom(to.TimeColumn, extra)
		}
		to.Extra = extra.Used
		if table.Preferred == nil {
			table.Preferred = profile.Columns(to.WireFormat)
		}
	}
	if table.Extra = extra.All; len(table.Extra) > outbox.MostExtra {
		bad(ofTable, "Destinations", fmt.Errorf("have templates that name more than %d columns, headers and paths "+
			"together", outbox.MostExtra))
	}
	if found = append(found, check(routes, table)...); found == nil {
		table.Views = connect(routes)
	}
	return table, found
}
