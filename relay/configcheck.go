package relay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/sql"
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

// atLeast refuses numbers and durations that are too small.
func atLeast[T cmp.Ordered](p *problems, field string, value, least T) {
	if value < least {
		p.add(field, "must be at least %v", least)
	}
}

// mostShards is the largest number of shards.
const mostShards = 1024

// check returns what is wrong with the configuration. The defaults must have been filled in.
func (c *Config) check() error {
	var p problems
	if _, err := sql.ParseTable(c.Table); err != nil {
		p.add("Table", "is not the name of a table: write table or schema.table, a name with a dot in double quotes")
	}
	var key rowkey.Source
	if err := key.UnmarshalText([]byte(c.Key)); c.Key != "" && err != nil {
		p.add("Key", "%v", err)
	}
	atLeast(&p, "BatchSize", c.BatchSize, 1)
	atLeast(&p, "MaxInFlight", c.MaxInFlight, 1)
	atLeast(&p, "MaxInFlightBytes", c.MaxInFlightBytes, 1)
	atLeast(&p, "MaxRowBytes", c.MaxRowBytes, 1)
	atLeast(&p, "Shards", c.Shards, 1)
	if c.Shards > mostShards {
		p.add("Shards", "must be at most %d", mostShards)
	}
	atLeast(&p, "SpareConnections", c.SpareConnections, 0)
	atLeast(&p, "PollInterval", c.PollInterval, 0)
	atLeast(&p, "OwnerTTL", c.OwnerTTL, time.Second)
	atLeast(&p, "StopTimeout", c.StopTimeout, time.Millisecond)
	if len(c.Destinations) == 0 {
		p.add("Destinations", "must have at least one destination")
	}
	for i, d := range c.Destinations {
		at := func(field string) string { return fmt.Sprintf("Destinations[%d].%s", i, field) }
		if d == nil {
			p.add(fmt.Sprintf("Destinations[%d]", i), "is nil")
			continue
		}
		d.check(&p, at)
		c.checkStates(&p, d, i, at)
	}
	if len(p) == 0 {
		c.checkRows(&p)
	}
	return errors.Join(p...)
}

// checkRows adds destinations that can take no row. Everything else must be right.
func (c *Config) checkRows(p *problems) {
	for i, d := range c.Destinations {
		var earlier [][]string
		for _, other := range c.Destinations[:i] {
			if maps.Equal(d.Columns, other.Columns) {
				earlier = append(earlier, other.Topics)
			}
		}
		if pattern.TakesNone(d.Topics, earlier) {
			p.add(fmt.Sprintf("Destinations[%d].Topics", i), "leaves no row to the destination: each row goes to the "+
				"first destination with the same Columns that takes it")
		}
	}
}

// check adds what is wrong with a destination by itself. at returns the full name of one of its fields.
func (d *Destination) check(p *problems, at func(field string) string) {
	switch d.Name {
	case "":
		p.add(at("Name"), "must be set where there are several destinations")
	case nowhereName:
		p.add(at("Name"), "must not be %q, which is reserved for rows that no destination takes", nowhereName)
	}
	if d.Publisher == nil {
		p.add(at("Publisher"), "is nil: give one of kafka.New, nats.New, amqp.New or your own")
	}
	if slices.Contains(d.Topics, "") || slices.Contains(d.Topics, "!") {
		p.add(at("Topics"), "must not hold an empty pattern")
	}
	for _, template := range []struct{ field, text string }{{"Topic", d.Topic}, {"Exchange", d.Exchange}} {
		if _, _, err := route.ParseTemplate(template.text, nil); err != nil {
			p.add(at(template.field), "cannot be used: %v", err)
		}
	}
	encodings := []route.Encoding{route.EncodingNone, route.EncodingBase64, route.EncodingHex}
	if !slices.Contains(encodings, route.Encoding(d.PayloadEncoding)) {
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

// checkStates adds what is wrong with a destination in relation to the others: its name, its columns, and the rows that
// it takes from another destination.
func (c *Config) checkStates(p *problems, d *Destination, i int, at func(field string) string) {
	for j, other := range c.Destinations[:i] {
		if other == nil {
			continue
		}
		if d.Name != "" && other.Name == d.Name {
			p.add(at("Name"), "is also the name of Destinations[%d]", j)
		}
		equal := maps.Equal(d.Columns, other.Columns)
		sameRows := d.FailedOf == other.FailedOf && d.RelayedOf == other.RelayedOf
		switch {
		case !equal && shareValues(d.Columns, other.Columns):
			p.add(at("Columns"), "must have no column in common with Destinations[%d], or all", j)
		case equal && !sameRows && len(d.Columns) > 0:
			p.add(at("Columns"), "must differ from those of Destinations[%d], which takes other rows", j)
		}
	}
	if d.Columns != nil && d.Columns["relayed_at"] == "" {
		p.add(at("Columns"), "must name a column for relayed_at")
	}
	if d.Columns != nil && c.Delete {
		p.add(at("Columns"), "must be nil with Delete, which deletes a row as soon as one destination has it")
	}
	if d.FailedOf != "" && d.RelayedOf != "" {
		p.add(at("RelayedOf"), "must be empty where FailedOf is set")
		return
	}
	field, name := "FailedOf", d.FailedOf
	if name == "" {
		field, name = "RelayedOf", d.RelayedOf
	}
	switch {
	case name == "":
	case c.destination(name) == nil:
		p.add(at(field), "names no destination: there is none called %q", name)
	case c.leadsBack(d):
		p.add(at(field), "leads back to the destination itself, so that it would never get a row")
	case d.Columns == nil:
		p.add(at(field), "needs Columns, which keep the state of these rows")
	}
}

// destination returns the destination with a name, or nil if there is none.
func (c *Config) destination(name string) *Destination {
	i := slices.IndexFunc(c.Destinations, func(d *Destination) bool { return d != nil && d.Name == name })
	if i < 0 {
		return nil
	}
	return c.Destinations[i]
}

// leadsBack reports whether a destination takes its rows from itself, by way of others.
func (c *Config) leadsBack(d *Destination) bool {
	from := d
	for range c.Destinations {
		if from = c.destination(cmp.Or(from.FailedOf, from.RelayedOf)); from == nil || from == d {
			break
		}
	}
	return from == d
}

// shareValues reports whether two maps have a value in common.
func shareValues(a, b map[string]string) bool {
	others := slices.Collect(maps.Values(b))
	common := func(column string) bool { return slices.Contains(others, column) }
	return slices.ContainsFunc(slices.Collect(maps.Values(a)), common)
}
