package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/metric"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// gauges registers the instruments that are read at a scrape. A gauge that cannot be read is left out.
func (r *Relay) gauges(meter metric.Meter) error {
	return errors.Join(r.gaugesOfProcess(meter), r.gaugesOfDestinations(meter), r.gaugesOfTable(meter))
}

// gauge makes an instrument. At a scrape, read observes its values.
func gauge(meter metric.Meter, name, description string, read func(metric.Int64Observer)) error {
	_, err := meter.Int64ObservableGauge(name, metric.WithDescription(description),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			read(o)
			return nil
		}))
	if err != nil {
		return fmt.Errorf("metric %s: %w", name, err)
	}
	return nil
}

// gaugesOfProcess registers what this process knows of itself and of the other replicas.
func (r *Relay) gaugesOfProcess(meter metric.Meter) error {
	return errors.Join(
		gauge(meter, "ready", "Whether /readyz answers that the relay is ready.", func(o metric.Int64Observer) {
			o.Observe(one(!slices.ContainsFunc(r.Ready(), func(c Check) bool { return c.Err != nil })))
		}),
		gauge(meter, "shards_owned", "Shards that this replica holds. Destinations with columns of their own have shards of "+
			"their own.", func(o metric.Int64Observer) { o.Observe(int64(r.Owned())) }),
		gauge(meter, "shards_unowned", "Shards that no replica holds, as last seen by this replica, also those of destinations "+
			"that are not configured here: aggregate with max.",
			func(o metric.Int64Observer) {
				if unowned, known := r.unowned(); known {
					o.Observe(int64(unowned))
				}
			}),
		gauge(meter, "replicas", "Replicas that share the outbox.", func(o metric.Int64Observer) {
			if n := r.owner.Replicas(); n > 0 {
				o.Observe(int64(n))
			}
		}),
		gauge(meter, "database_up", "Whether the last contact with the database succeeded, whoever made it.", func(o metric.Int64Observer) {
			o.Observe(one(r.databaseDown() == nil))
		}),
		gauge(meter, "listener_up", "Whether notifications arrive.", func(o metric.Int64Observer) { o.Observe(one(r.listener.Up())) }),
	)
}

// gaugesOfDestinations registers what the engines and the pings know.
func (r *Relay) gaugesOfDestinations(meter metric.Meter) error {
	each := func(value func(engine.Snapshot) int) func(metric.Int64Observer) {
		return func(o metric.Int64Observer) {
			for _, d := range r.config.Destinations {
				o.Observe(int64(value(d.snapshot())), d.measured.Labelled())
			}
		}
	}
	return errors.Join(
		gauge(meter, "in_flight_rows", "Rows read and not yet settled.", each(func(s engine.Snapshot) int { return s.InFlight })),
		gauge(meter, "blocked_keys", "Keys that wait for a row that was refused, is held, or has failed (if failed rows block their keys).",
			each(func(s engine.Snapshot) int { return s.Blocked })),
		gauge(meter, "destination_up", "Whether the broker can be reached and takes messages.", func(o metric.Int64Observer) {
			for _, d := range configured(r.config.Destinations) {
				o.Observe(one(d.unusable() == nil), d.measured.Labelled())
			}
		}),
		gauge(meter, "destination_required", "Whether readiness, drain and prune wait for the destination; 0 if it is best effort.",
			func(o metric.Int64Observer) {
				for _, d := range configured(r.config.Destinations) {
					o.Observe(one(!d.Optional), d.measured.Labelled())
				}
			}),
	)
}

// perTable ends the descriptions of gauges that every replica reads from the same table.
const perTable = " The same from every replica: aggregate with max."

// gaugesOfTable registers the numbers of rows that are held and what is measured in the table. They are read together,
// so that one scrape measures the table once.
func (r *Relay) gaugesOfTable(meter metric.Meter) error {
	var failure error
	gauge := func(name, description string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithDescription(description))
		if err != nil {
			failure = fmt.Errorf("metric %s: %w", name, err)
		}
		return g
	}
	held := gauge("rows_held", "Rows that are known to wait, by reason. Later rows of their keys are not counted. "+
		"Of a paused destination all due rows are, up to 10001.")
	pending := gauge("pending_rows", "Rows that are due and neither relayed nor failed, counted up to 10001."+perTable)
	scheduled := gauge("scheduled_rows", "Rows with available_at to come, counted up to 10001."+perTable)
	failed := gauge("failed_rows", "Failed rows, counted up to 10001."+perTable)
	tableBytes := gauge("table_bytes", "Bytes of the table on disk, with its indexes and all partitions."+perTable)
	deadRows := gauge("table_dead_rows", "Rows that vacuum has not removed from the table, as far as the server's statistics know."+perTable)
	oldest, err := meter.Float64ObservableGauge("oldest_pending_age", metric.WithUnit("s"),
		metric.WithDescription("How long the first pending row in table order has been due."+perTable))
	if err := errors.Join(failure, err); err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		r.observeHeld(o, held)
		report, err := r.measureTable(ctx)
		if err != nil {
			r.config.Logger.Debug("table gauges were not measured", "error", err)
		}
		for i := range report.Destinations {
			b, d := &report.Destinations[i].Backlog, r.config.Destinations[i]
			d.observe(o, pending, b.Gauge(outbox.Due))
			d.observe(o, scheduled, b.Gauge(outbox.Scheduled))
			d.observe(o, failed, b.Gauge(outbox.Failed))
			if b.OldestAgeSeconds != nil {
				o.ObserveFloat64(oldest, *b.OldestAgeSeconds, d.measured.Labelled())
			}
			d.observePaused(o, held, b.Gauge(outbox.Due))
		}
		if size := report.Size; size != nil {
			o.ObserveInt64(tableBytes, size.Bytes)
			o.ObserveInt64(deadRows, size.DeadRows)
		}
		return nil
	}, held, pending, scheduled, failed, tableBytes, deadRows, oldest)
	if err != nil {
		return fmt.Errorf("register gauges: %w", err)
	}
	return nil
}

// observeHeld observes the rows that the engines know to wait, by reason.
func (r *Relay) observeHeld(o metric.Observer, held metric.Int64Observable) {
	for _, d := range r.config.Destinations {
		s := d.snapshot()
		for _, c := range engine.Causes {
			if c != engine.CausePaused {
				o.ObserveInt64(held, s.Held[c], d.measured.Labelled("reason", c))
			}
		}
	}
}

// observePaused observes the rows that wait because the destination is paused: all that are pending.
func (d *Destination) observePaused(o metric.Observer, held metric.Int64Observable, pending *int64) {
	if !d.paused.Load() {
		pending = new(int64)
	}
	d.observe(o, held, pending, "reason", engine.CausePaused)
}

// observe observes a number of rows of the destination, unless it is not known.
func (d *Destination) observe(o metric.Observer, gauge metric.Int64Observable, rows *int64, labels ...string) {
	if rows != nil {
		o.ObserveInt64(gauge, *rows, d.measured.Labelled(labels...))
	}
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
