package relay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A FieldError reports a field of [Config] that cannot be used.
type FieldError struct {
	Field string // name of the field, such as Table or Destinations[0].Publisher
	Text  string // what is wrong with it, as the predicate of a sentence whose subject is the field
}

func (e *FieldError) Error() string { return "relay.Config." + e.Field + " " + e.Text }

// problems collects what is wrong with a configuration.
type problems []error

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, &FieldError{field, fmt.Sprintf(format, args...)})
}

// fieldOf returns the full name of a field of a destination.
func fieldOf(destination int, name string) string {
	return fmt.Sprintf("Destinations[%d].%s", destination, name)
}

// atLeast refuses numbers and durations that are too small.
func atLeast[T cmp.Ordered](p *problems, field string, value, least T) {
	if value < least {
		p.add(field, "must be at least %v", least)
	}
}

// check returns what is wrong with each field by itself.
func (c *Config) check() (p problems) {
	atLeast(&p, "BatchSize", c.BatchSize, 1)
	atLeast(&p, "MaxInFlight", c.MaxInFlight, 1)
	atLeast(&p, "MaxInFlightBytes", c.MaxInFlightBytes, 1)
	atLeast(&p, "MaxRowBytes", c.MaxRowBytes, 1)
	atLeast(&p, "Shards", c.Shards, 1)
	if c.Shards > owner.MaxShards {
		p.add("Shards", "must be at most %d", owner.MaxShards)
	}
	atLeast(&p, "SpareConnections", c.SpareConnections, 0)
	atLeast(&p, "PollInterval", c.PollInterval, 0)
	atLeast(&p, "OwnerTTL", c.OwnerTTL, time.Second)
	atLeast(&p, "StopTimeout", c.StopTimeout, time.Millisecond)
	if len(c.Destinations) == 0 {
		p.add("Destinations", "must have at least one destination")
	}
	for i, d := range c.Destinations {
		d.check(&p, func(name string) string { return fieldOf(i, name) })
		sameName := func(other *Destination) bool { return other.Name == d.Name }
		if j := slices.IndexFunc(c.Destinations, sameName); j < i && d.Name != "" {
			p.add(fieldOf(i, "Name"), "is also the name of Destinations[%d]", j)
		}
	}
	return p
}

// check adds what is wrong with a destination by itself. at returns the full name of one of its fields.
func (d *Destination) check(p *problems, at func(field string) string) {
	switch d.Name {
	case "":
		p.add(at("Name"), "must be set where there are several destinations")
	case untaken:
		p.add(at("Name"), "must not be %q, which is reserved for rows that no destination takes", untaken)
	}
	if d.Publisher == nil {
		p.add(at("Publisher"), "is nil: give one of kafka.New, nats.New, amqp.New or your own")
	}
	if slices.Contains(d.Topics, "") || slices.Contains(d.Topics, "!") {
		p.add(at("Topics"), "must not hold an empty pattern")
	}
	if !slices.Contains([]string{"", "none", "base64", "hex"}, d.PayloadEncoding) {
		p.add(at("PayloadEncoding"), "must be base64 or hex, or empty for none")
	}
	if _, err := profile.New(d.WireFormat, publisher.ProtocolKafka, profile.Options{}); err != nil {
		p.add(at("WireFormat"), "is an %v", err)
	}
	atLeast(p, at("MaxAttempts"), d.MaxAttempts, 1)
	atLeast(p, at("BackoffMin"), d.BackoffMin, time.Millisecond)
	atLeast(p, at("BackoffMax"), d.BackoffMax, d.BackoffMin)
	atLeast(p, at("PublishTimeout"), d.PublishTimeout, time.Millisecond)
	atLeast(p, at("MaxAge"), d.MaxAge, 0)
	atLeast(p, at("MaxInFlight"), d.MaxInFlight, 0)
	atLeast(p, at("MaxInFlightBytes"), d.MaxInFlightBytes, 0)
	atLeast(p, at("Rate"), d.Rate, 0)
}
