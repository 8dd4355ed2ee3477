package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// metrics are the instruments of the relay. Labels come from closed sets, every series exists from the
// start, and what happens to rows is counted once for each batch. Only a histogram's series begins with its first
// value: OpenTelemetry has no way to export an empty one.
type metrics struct {
	relayedRows, errorRows, failedRows, violations, republished, duplicates, takeovers, wakeups metric.Int64Counter
	latency, stages, batchRows                                                                  metric.Float64Histogram

	destinations map[*Destination]labels
	wakeLabels   map[string]metric.MeasurementOption

	mu    sync.Mutex
	state map[*Destination]snapshot
}

// labels are the prepared label sets of a destination.
type labels struct {
	destination metric.MeasurementOption
	errors      map[publisher.Class]metric.MeasurementOption
	failed      map[string]metric.MeasurementOption
	held        map[cause]metric.MeasurementOption
	history     *history
	stages      map[string]metric.MeasurementOption
}

// snapshot is the state of a destination that gauges show.
type snapshot struct {
	inFlight, blocked int
	stuck             int   // rows in flight that cannot be written now
	full              bool  // and leave no room for others
	why               error // the last answer of the database to that
	held              map[cause]int64
	holds             []Hold // the oldest
	down              error  // why nothing can be published
	note              string // what is held of it, if it is not down
}

const (
	stageFetch   = "fetch"
	stagePublish = "publish"
	stageSettle  = "settle"

	sourcePoll     = "poll"
	sourceListen   = "listen"
	sourceDoorbell = "doorbell"
	sourceRetry    = "retry"
	sourceNone     = "" // nobody has given a hint, and it is looked to be sure

	failedAttempts  = "attempts"
	failedPermanent = "permanent"
	failedExpired   = "expired"
)

// errorClasses are the classes that publish_errors counts.
var errorClasses = []publisher.Class{publisher.Refused, publisher.Permanent, publisher.Unavailable, publisher.Ambiguous, publisher.Topology}

func label(pairs ...string) metric.MeasurementOption {
	var set []attribute.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		set = append(set, attribute.String(pairs[i], pairs[i+1]))
	}
	return metric.WithAttributeSet(attribute.NewSet(set...))
}

// newMetrics makes the instruments. The exporter adds the prefix outbox_relay_ and Prometheus' suffixes to their names.
func newMetrics(meter metric.Meter, destinations []*Destination) (*metrics, error) {
	m := &metrics{state: map[*Destination]snapshot{}, destinations: map[*Destination]labels{}, wakeLabels: map[string]metric.MeasurementOption{}}
	var failure error
	counter := func(name, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithDescription(description))
		if err != nil && failure == nil {
			failure = fmt.Errorf("metric %s: %w", name, err)
		}
		return c
	}
	histogram := func(name, unit, description string, bounds ...float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		if err != nil && failure == nil {
			failure = fmt.Errorf("metric %s: %w", name, err)
		}
		return h
	}
	m.relayedRows = counter("rows_relayed", "Rows that a broker has acknowledged and that are settled in the table.")
	m.errorRows = counter("publish_errors", "Answers of brokers other than an acknowledgement, by class.")
	m.failedRows = counter("rows_failed", "Rows that failed for good, by reason.")
	m.violations = counter("order_violations", "Rows that were committed after a younger row of their key had been relayed.")
	m.republished = counter("republished", "Rows that were published again because the last publish may have delivered them, or some copies of them.")
	m.duplicates = counter("unexpected_duplicates", "Rows that a broker dropped as duplicates although they were never sent, and that count as relayed.")
	m.takeovers = counter("takeovers", "Shards that this replica became the owner of.")
	m.wakeups = counter("wakeups", "Reads that found new rows (poll, retry) and hints received (listen, doorbell).")
	m.latency = histogram("relay_latency", "s", "Time from when a row was due, mostly its insert, to its settled acknowledgement.",
		0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800, 3600)
	m.stages = histogram("stage_duration", "s", "Time that one batch took in a stage: fetch, publish, settle.",
		0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
	m.batchRows = histogram("batch_rows", "", "Rows in a published batch.", 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
	if failure != nil {
		return nil, failure
	}
	ctx := context.Background()
	for _, d := range destinations {
		l := labels{destination: label("destination", d.Name), errors: map[publisher.Class]metric.MeasurementOption{},
			failed: map[string]metric.MeasurementOption{}, held: map[cause]metric.MeasurementOption{}, stages: map[string]metric.MeasurementOption{},
			history: &history{began: time.Now()}}
		m.relayedRows.Add(ctx, 0, l.destination)
		m.duplicates.Add(ctx, 0, l.destination)
		for _, class := range errorClasses {
			l.errors[class] = label("destination", d.Name, "class", class.String())
			m.errorRows.Add(ctx, 0, l.errors[class])
		}
		for _, reason := range []string{failedAttempts, failedPermanent, failedExpired} {
			l.failed[reason] = label("destination", d.Name, "reason", reason)
			m.failedRows.Add(ctx, 0, l.failed[reason])
		}
		for _, c := range causes {
			l.held[c] = label("destination", d.Name, "reason", string(c))
		}
		for _, stage := range []string{stageFetch, stagePublish, stageSettle} {
			l.stages[stage] = label("destination", d.Name, "stage", stage)
		}
		m.destinations[d] = l
	}
	for _, source := range []string{sourcePoll, sourceListen, sourceDoorbell, sourceRetry} {
		m.wakeLabels[source] = label("source", source)
		m.wakeups.Add(ctx, 0, m.wakeLabels[source])
	}
	for _, c := range []metric.Int64Counter{m.violations, m.republished, m.takeovers} {
		c.Add(ctx, 0)
	}
	return m, nil
}

// published counts the answers of one batch.
func (m *metrics) published(d *Destination, rows int, counts map[publisher.Class]int) {
	ctx := context.Background()
	m.batchRows.Record(ctx, float64(rows), m.destinations[d].destination)
	for class, n := range counts {
		if option, ok := m.destinations[d].errors[class]; ok {
			m.errorRows.Add(ctx, int64(n), option)
		}
		if class == publisher.Ambiguous {
			m.republished.Add(ctx, int64(n))
		}
	}
}

// republish counts a row of which a publish may have left a copy, and which will be published again.
func (m *metrics) republish() { m.republished.Add(context.Background(), 1) }

// relayed counts rows that were marked.
func (m *metrics) relayed(rows []*row, now time.Time) {
	ctx := context.Background()
	for i := 0; i < len(rows); {
		d, first, n := rows[i].destination, i, 0
		for ; i < len(rows) && rows[i].destination == d; i++ {
			if due := rows[i].Due; !due.IsZero() {
				m.latency.Record(ctx, rows[i].answered.Sub(due).Seconds(), m.destinations[d].destination)
			}
			n++
		}
		m.relayedRows.Add(ctx, int64(n), m.destinations[d].destination)
		m.destinations[d].history.add(rows[first:i], now)
	}
}

func (m *metrics) failed(d *Destination, err error) {
	reason := failedAttempts
	switch {
	case errors.Is(err, errExpired):
		reason = failedExpired
	case publisher.ClassOf(err) == publisher.Permanent:
		reason = failedPermanent
	}
	m.failedRows.Add(context.Background(), 1, m.destinations[d].failed[reason])
	m.destinations[d].history.fail(time.Now())
}

func (m *metrics) orderViolations(n int64) { m.violations.Add(context.Background(), n) }

func (m *metrics) unexpectedDuplicates(d *Destination, n int) {
	if n > 0 {
		m.duplicates.Add(context.Background(), int64(n), m.destinations[d].destination)
	}
}

func (m *metrics) tookOver(shards int) { m.takeovers.Add(context.Background(), int64(shards)) }

func (m *metrics) wakeup(source string) {
	if source != sourceNone {
		m.wakeups.Add(context.Background(), 1, m.wakeLabels[source])
	}
}

func (m *metrics) stage(d *Destination, name string, took time.Duration) {
	m.stages.Record(context.Background(), took.Seconds(), m.destinations[d].stages[name])
}

func (m *metrics) observe(d *Destination, s snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state[d] = s
}

// of returns the state of a destination.
func (m *metrics) of(d *Destination) snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state[d]
}

// all returns the state of all destinations together.
func (m *metrics) all() (s snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.held = map[cause]int64{}
	for _, one := range m.state {
		s.inFlight += one.inFlight
		s.blocked += one.blocked
		s.stuck += one.stuck
		s.full = s.full || one.full
		if one.why != nil {
			s.why = one.why
		}
		for c, n := range one.held {
			s.held[c] += n
		}
	}
	return s
}
