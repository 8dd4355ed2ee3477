package relay

import (
	"context"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// nowhere returns the destination of rows that no configured destination takes: they are held.
func nowhere() *Destination {
	return &Destination{
		Name: nowhereName, Publisher: unrouted{}, MaxAttempts: 1,
		BackoffMin: time.Second, BackoffMax: time.Second, PublishTimeout: time.Second,
	}
}

const (
	nowhereName     = "none"
	nowhereInterval = time.Second // shortest interval between polls for its rows
	nowhereRows     = 100         // limits in addition to those of the others
	nowhereBytes    = 1 << 20
)

// unrouted is the publisher of nowhere.
type unrouted struct{}

func (unrouted) Publish(_ context.Context, messages []publisher.Message) []error {
	errs := make([]error, len(messages))
	for i := range messages {
		errs[i] = publisher.TopologyError("no destination",
			"no destination takes the topic %q: add it to the topics of a destination", messages[i].Topic)
	}
	return errs
}

func (unrouted) Ping(context.Context) error { return nil }
func (unrouted) Close() error               { return nil }

// configured returns the destinations without nowhere, which comes last.
func configured(destinations []*Destination) []*Destination {
	if last := len(destinations) - 1; last >= 0 && destinations[last].Name == nowhereName {
		return destinations[:last]
	}
	return destinations
}

// withNowhere adds nowhere to the destinations if there may be rows that no destination takes.
func withNowhere(destinations []*Destination) []*Destination {
	everything := func(d *Destination) bool { return d.plain() && pattern.SQL("topic", d.Topics) == pattern.Always }
	if len(destinations) == 0 || slices.ContainsFunc(destinations, everything) {
		return destinations
	}
	rest := nowhere()
	plain := slices.DeleteFunc(slices.Clone(destinations), func(d *Destination) bool { return !d.plain() })
	if len(plain) == 0 {
		return destinations
	}
	if !slices.ContainsFunc(plain, func(d *Destination) bool { return d.Columns == nil }) {
		rest.Columns = plain[0].Columns // nothing keeps the table's own columns up to date
	}
	return append(slices.Clip(destinations), rest)
}
