package route

import (
	"fmt"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/profile"
)

// A Source is a destination as it is configured: a route whose topic, exchange and time are still texts.
type Source struct {
	Route
	TopicText    string // template of the topic; empty for the row's own
	ExchangeText string // template of the exchange; empty leaves it to the publisher
	TimeColumn   string // column with the message's time; empty leaves it to the publisher
	WireFormat   string
}

// A SourceError reports a text of a destination that cannot be used.
type SourceError struct {
	Destination int    // index of the destination
	Field       string // Topic or Exchange
	Err         error
}

func (e *SourceError) Error() string {
	return fmt.Sprintf("%s of destination %d: %v", e.Field, e.Destination, e.Err)
}
func (e *SourceError) Unwrap() error { return e.Err }

// Plan returns the routes of all destinations, and the table's configuration with everything that they need of its
// rows. The error is a [*SourceError].
func Plan(table outbox.Config, sources []Source) (outbox.Config, []*Route, error) {
	routes := make([]*Route, len(sources))
	for i := range sources {
		s := &sources[i]
		to := s.Route
		var err error
		if to.Topic, table.Extra, err = ParseTemplate(s.TopicText, table.Extra); err != nil {
			return table, nil, &SourceError{i, "Topic", err}
		}
		if s.ExchangeText != "" {
			exchange, extra, err := ParseTemplate(s.ExchangeText, table.Extra)
			if err != nil {
				return table, nil, &SourceError{i, "Exchange", err}
			}
			to.Exchange, table.Extra = &exchange, extra
		}
		if s.TimeColumn != "" {
			to.Time, table.Extra = TimeFrom(s.TimeColumn, table.Extra)
		}
		if table.Preferred == nil {
			table.Preferred = profile.Columns(s.WireFormat)
		}
		routes[i] = &to
	}
	table.Views = Views(routes)
	return table, routes, nil
}
