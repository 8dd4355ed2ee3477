package relay

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A FieldError reports a field of [Config] or [Destination] that cannot be used.
type FieldError struct {
	Destination int    // index in [Config.Destinations]; negative for a field of Config
	Field       string // name of the field, such as Table or Publisher
	Text        string // what is wrong with it, as the predicate of a sentence whose subject is the field
}

func (e *FieldError) Error() string { return "relay.Config." + e.name() + " " + e.Text }

// name returns the full name of the field.
func (e *FieldError) name() string {
	if e.Destination < 0 {
		return e.Field
	}
	return fmt.Sprintf("Destinations[%d].%s", e.Destination, e.Field)
}

// ofConfig is the Destination of a FieldError for a field of Config.
const ofConfig = -1

// problems collects what is wrong with a configuration.
type problems []*FieldError

func (p *problems) add(destination int, field, format string, args ...any) {
	*p = append(*p, &FieldError{destination, field, fmt.Sprintf(format, args...)})
}

// err returns an error that names all of them.
func (p problems) err() error {
	var errs []error
	for _, one := range p {
		errs = append(errs, one)
	}
	return errors.Join(errs...)
}

// number gives a number or duration its default if it is zero, and refuses one that is too small.
func number[T cmp.Ordered](p *problems, destination int, field string, value *T, otherwise, least T) {
	if *value = cmp.Or(*value, otherwise); *value < least {
		p.add(destination, field, "must be at least %v", least)
	}
}

// complete gives every empty field its default, except PollInterval and ListenChannel. It returns what is wrong with
// each field by itself.
func (c *Config) complete() (p problems) {
	c.Table = cmp.Or(c.Table, "outbox_messages")
	c.Meter = cmp.Or[metric.Meter](c.Meter, metricnoop.Meter{})
	c.Tracer = cmp.Or[trace.Tracer](c.Tracer, tracenoop.Tracer{})
	c.Logger = cmp.Or(c.Logger, slog.Default())
	number(&p, ofConfig, "BatchSize", &c.BatchSize, 1000, 1)
	number(&p, ofConfig, "MaxInFlight", &c.MaxInFlight, 4096, 1)
	number(&p, ofConfig, "MaxInFlightBytes", &c.MaxInFlightBytes, 64<<20, 1)
	number(&p, ofConfig, "MaxRowBytes", &c.MaxRowBytes, max(outbox.DefaultMaxRow, c.MaxInFlightBytes), 1)
	number(&p, ofConfig, "Shards", &c.Shards, 16, 1)
	if c.Shards > owner.MaxShards {
		p.add(ofConfig, "Shards", "must be at most %d", owner.MaxShards)
	}
	number(&p, ofConfig, "OwnerTTL", &c.OwnerTTL, defaultTTL, time.Second)
	number(&p, ofConfig, "StopTimeout", &c.StopTimeout, 25*time.Second, time.Millisecond)
	if len(c.Destinations) == 0 {
		p.add(ofConfig, "Destinations", "must have at least one destination")
	}
	for i, d := range c.Destinations {
		if len(c.Destinations) == 1 {
			d.Name = cmp.Or(d.Name, "default")
		}
		d.complete(&p, i)
		sameName := func(other *Destination) bool { return other.Name == d.Name }
		if j := slices.IndexFunc(c.Destinations, sameName); j < i && d.Name != "" {
			p.add(i, "Name", "is also the name of Destinations[%d]", j)
		}
	}
	return p
}

// complete gives every empty field of the destination with the given index its default. It adds what is wrong with each
// field by itself.
func (d *Destination) complete(p *problems, i int) {
	d.Topic = cmp.Or(d.Topic, profile.Topic(d.WireFormat))
	switch d.Name {
	case "":
		p.add(i, "Name", "must be set where there are several destinations")
	case untaken:
		p.add(i, "Name", "must not be %q, which is reserved for rows that no destination takes", untaken)
	}
	if !slices.Contains([]string{"", "none", "base64", "hex"}, d.PayloadEncoding) {
		p.add(i, "PayloadEncoding", "must be base64 or hex, or empty for none")
	}
	if _, err := profile.New(d.WireFormat, publisher.ProtocolKafka, profile.Options{}); err != nil {
		p.add(i, "WireFormat", "is an %v", err)
	}
	number(p, i, "MaxAttempts", &d.MaxAttempts, 5, 1)
	number(p, i, "BackoffMin", &d.BackoffMin, 500*time.Millisecond, time.Millisecond)
	d.BackoffMax = cmp.Or(d.BackoffMax, max(time.Minute, d.BackoffMin))
	if d.BackoffMin > d.BackoffMax {
		p.add(i, "BackoffMin", "is more than %s, which is %v; lower one or raise the other",
			setting.Names(d.SettingName).Of("BackoffMax"), d.BackoffMax)
	}
	number(p, i, "PublishTimeout", &d.PublishTimeout, 10*time.Second, time.Millisecond)
}
