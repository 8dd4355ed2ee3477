// Package measure counts what happens to the rows of each destination: the relay's instruments, and the history of the
// last hour.
package measure

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Metrics are the instruments of the relay. Labels come from closed sets, every series exists from the start, and what
// happens to rows is counted once for each batch. Only a histogram's series begins with its first value, since
// OpenTelemetry cannot export an empty one. Methods may be called by several goroutines and do not block.
//
// Names and labels are documented in docs/metrics.md, and dashboards and alerts use them.
type Metrics struct {
	relayedRows, errorRows, failedRows, violations, republished, duplicates, takeovers, wakeups metric.Int64Counter
	latency, stages, batchRows                                                                  metric.Float64Histogram
}

// Destination counts what happens at one destination. Its methods may be called by several goroutines.
type Destination struct {
	*Metrics
	History History // of this destination's rows, for the status page
	name    string
}

// The stages whose duration is measured: values of the label stage. Each is the time of one statement or one call of a
// publisher, and none has the time in which rows wait between them.
const (
	StageFetch   = "fetch"   // a read of any kind
	StagePublish = "publish" // a batch at a worker, with the rehearsal of its marks
	StageSettle  = "settle"  // a statement that marks rows or writes refusals
)

// The sources of hints that there may be new rows, and of reads that found some: values of the label source.
const (
	SourcePoll     = "poll"     // a read of a tail or a sweep found new rows
	SourceListen   = "listen"   // a notification of the database
	SourceDoorbell = "doorbell" // a ring over HTTP or by the library's user
	SourceRetry    = "retry"    // a read of closed keys found new rows
	SourceNone     = ""         // a precaution without any hint, which is not counted
)

// The reasons for which rows fail: values of the label reason of rows_failed.
const (
	FailedAttempts  = "attempts"  // refused as often as is allowed
	FailedPermanent = "permanent" // refused for good by the broker, or cannot be made into a message
	FailedExpired   = "expired"   // too old to be published
)

// errorClasses are the classes that publish_errors counts: what a broker has answered, or failed to. A row that was not
// attempted had no answer.
var errorClasses = []publisher.Class{
	publisher.Refused, publisher.Permanent, publisher.Unavailable, publisher.Ambiguous, publisher.Topology,
}

// Label makes a set of labels from pairs of a name and a value.
func Label(pairs ...string) metric.MeasurementOption {
	var set []attribute.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		set = append(set, attribute.String(pairs[i], pairs[i+1]))
	}
	return metric.WithAttributeSet(attribute.NewSet(set...))
}

// count adds to a counter. No counter needs a context.
func count(c metric.Int64Counter, n int, labels ...metric.AddOption) {
	c.Add(context.Background(), int64(n), labels...)
}

// New makes the instruments. The exporter adds the prefix outbox_relay_ and Prometheus' suffixes to their names. Its
// error joins those of the meter.
func New(meter metric.Meter) (*Metrics, error) {
	m := &Metrics{}
	var failure error
	counter := func(name, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithDescription(description))
		failure = errors.Join(failure, err)
		return c
	}
	histogram := func(name, unit, description string, bounds ...float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name,
			metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		failure = errors.Join(failure, err)
		return h
	}
	m.relayedRows = counter("rows_relayed", "Rows that a broker has acknowledged and that are settled in the table.")
	m.errorRows = counter("publish_errors", "Answers of brokers other than an acknowledgement, by class.")
	m.failedRows = counter("rows_failed", "Rows that failed for good, by reason.")
	m.violations = counter("order_violations",
		"Rows that were committed after a younger row of their key had been relayed.")
	m.republished = counter("republished",
		"Rows that were published again because the last publish may have delivered them, or some copies of them.")
	m.duplicates = counter("unexpected_duplicates",
		"Rows that a broker dropped as duplicates although they were never sent, and that count as relayed.")
	m.takeovers = counter("takeovers", "Shards that this replica became the owner of.")
	m.wakeups = counter("wakeups", "Reads that found new rows (poll, retry) and hints received (listen, doorbell).")
	m.latency = histogram("relay_latency", "s",
		"Time from when a row was due, mostly its insert, to its settled acknowledgement.",
		0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800, 3600)
	m.stages = histogram("stage_duration", "s", "Time that one batch took in a stage: fetch, publish, settle.",
		0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
	m.batchRows = histogram("batch_rows", "", "Rows in a published batch.",
		1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
	if failure != nil {
		return nil, failure
	}
	for _, source := range []string{SourcePoll, SourceListen, SourceDoorbell, SourceRetry} {
		count(m.wakeups, 0, Label("source", source))
	}
	for _, c := range []metric.Int64Counter{m.violations, m.republished, m.takeovers} {
		count(c, 0)
	}
	return m, nil
}

// Destination makes the series of a destination. They start at zero, so that a rate over time sees the first row, too.
func (m *Metrics) Destination(name string) *Destination {
	d := &Destination{Metrics: m, History: History{began: time.Now()}, name: name}
	count(m.relayedRows, 0, d.Labelled())
	count(m.duplicates, 0, d.Labelled())
	for _, class := range errorClasses {
		count(m.errorRows, 0, d.Labelled("class", class.String()))
	}
	for _, reason := range []string{FailedAttempts, FailedPermanent, FailedExpired} {
		count(m.failedRows, 0, d.Labelled("reason", reason))
	}
	return d
}

// Labelled returns the destination's label, together with others if pairs of a name and a value are given.
func (d *Destination) Labelled(pairs ...string) metric.MeasurementOption {
	return Label(append([]string{"destination", d.name}, pairs...)...)
}

// Published counts the rows of one batch and the answers to it.
func (d *Destination) Published(rows int, counts map[publisher.Class]int) {
	d.batchRows.Record(context.Background(), float64(rows), d.Labelled())
	for class, n := range counts {
		if slices.Contains(errorClasses, class) {
			count(d.errorRows, n, d.Labelled("class", class.String()))
		}
		if class == publisher.Ambiguous {
			count(d.republished, n)
		}
	}
}

// Republish counts a row that will be published again although its last publish may have left a copy.
func (m *Metrics) Republish() { count(m.republished, 1) }

// Relayed counts rows that were marked, by their latencies. The latency of a row whose time is not known is [Unknown].
func (d *Destination) Relayed(latencies []time.Duration, now time.Time) {
	here := d.Labelled()
	for _, latency := range latencies {
		if latency != Unknown {
			d.latency.Record(context.Background(), latency.Seconds(), here)
		}
	}
	count(d.relayedRows, len(latencies), here)
	d.History.add(latencies, now)
}

// Failed counts a row that failed for a reason.
func (d *Destination) Failed(reason string, now time.Time) {
	count(d.failedRows, 1, d.Labelled("reason", reason))
	d.History.fail(now)
}

// OrderViolation counts a row that was committed after a younger row of its key had been relayed.
func (m *Metrics) OrderViolation() { count(m.violations, 1) }

// UnexpectedDuplicate counts a row that the broker dropped as a duplicate although it was never sent.
func (d *Destination) UnexpectedDuplicate() { count(d.duplicates, 1, d.Labelled()) }

// TookOver counts shards that this replica became the owner of.
func (m *Metrics) TookOver(shards int) { count(m.takeovers, shards) }

// Wakeup counts a hint, or a read that found new rows.
func (m *Metrics) Wakeup(source string) {
	if source != SourceNone {
		count(m.wakeups, 1, Label("source", source))
	}
}

// Stage records how long a batch took in a stage.
func (d *Destination) Stage(name string, took time.Duration) {
	d.stages.Record(context.Background(), took.Seconds(), d.Labelled("stage", name))
}
