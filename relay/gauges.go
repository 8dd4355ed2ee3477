package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/metric"

	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// perTable ends the descriptions of gauges that every replica reads from the same table. A sum over the replicas would
// count each row once for each of them.
const perTable = " The same from every replica: aggregate with max."

// gauges registers the instruments that are read at a scrape. One callback reads all of them, so that a scrape measures
// the table once. A gauge that cannot be read is left out: a value of earlier would look like the present one. What is
// counted in the table ends at 10,001, so that a scrape costs the same at any size.
func (r *Relay) gauges(meter metric.Meter) error {
	var all []metric.Observable
	var errs []error
	gauge := func(name, description string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithDescription(description))
		errs, all = append(errs, err), append(all, g)
		return g
	}
	// Of this process, and what it sees of the others.
	ready := gauge("ready", "Whether /readyz answers that the relay is ready.")
	owned := gauge("shards_owned", "Shards that this replica holds, over all sets of columns.")
	unowned := gauge("shards_unowned", "Shards that no replica holds, as last seen by this one: aggregate with max.")
	replicas := gauge("replicas", "Replicas that share the outbox; with deployments of different destinations, those "+
		"of the one that has most.")
	databaseUp := gauge("database_up", "Whether the last contact with the database succeeded, whoever made it.")
	listenerUp := gauge("listener_up", "Whether notifications arrive.")
	// Of each destination, as its engine knows.
	inFlight := gauge("in_flight_rows", "Rows read and not yet settled.")
	blocked := gauge("blocked_keys", "Keys that wait for a row that was refused, is held, or has failed and blocks.")
	held := gauge("rows_held", "Rows that are known to wait, by reason. Later rows of their keys are not counted.")
	up := gauge("destination_up", "Whether the broker can be reached and takes messages.")
	required := gauge("destination_required", "Whether readiness, drain and prune wait for the destination.")
	// Of the table.
	counts := map[outbox.State]metric.Int64Observable{
		outbox.Due:       gauge("pending_rows", "Due rows that wait to be relayed, counted up to 10001."+perTable),
		outbox.Scheduled: gauge("scheduled_rows", "Rows with available_at to come, counted up to 10001."+perTable),
		outbox.Failed:    gauge("failed_rows", "Failed rows, counted up to 10001."+perTable),
	}
	tableBytes := gauge("table_bytes", "Bytes of the table on disk, with its indexes and all partitions."+perTable)
	deadRows := gauge("table_dead_rows", "Dead rows of the table, by the server's statistics."+perTable)
	oldest, err := meter.Float64ObservableGauge("oldest_pending_age", metric.WithUnit("s"),
		metric.WithDescription("How long the first pending row in table order has been due."+perTable))
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	observe := func(ctx context.Context, o metric.Observer) error {
		failed := func(c Check) bool { return c.Err != nil }
		o.ObserveInt64(ready, one(!slices.ContainsFunc(r.Ready(), failed)))
		o.ObserveInt64(owned, int64(r.owned()))
		if n := r.owner.Replicas(); n > 0 { // otherwise neither is known
			o.ObserveInt64(replicas, int64(n))
			o.ObserveInt64(unowned, int64(r.unowned()))
		}
		o.ObserveInt64(databaseUp, one(r.databaseDown() == nil))
		o.ObserveInt64(listenerUp, one(r.listener.Up()))
		report, _ := r.measureTable(ctx) // the report of the status has the error
		if size := report.Size; size != nil {
			o.ObserveInt64(tableBytes, size.Bytes)
			o.ObserveInt64(deadRows, size.DeadRows)
		}
		rows := func(gauge metric.Int64Observable, n *int64, labels ...string) {
			if n != nil {
				o.ObserveInt64(gauge, *n, measure.Label(labels...))
			}
		}
		ofTable := func(destination string, b *operate.Backlog) (due *int64) {
			for state, count := range counts {
				rows(count, b.Gauge(state), "destination", destination)
			}
			if b.OldestAgeSeconds != nil {
				o.ObserveFloat64(oldest, *b.OldestAgeSeconds, measure.Label("destination", destination))
			}
			return b.Gauge(outbox.Due)
		}
		for i, d := range r.config.Destinations {
			s, labels := d.snapshot(), measure.Label("destination", d.Name)
			o.ObserveInt64(inFlight, int64(s.InFlight), labels)
			o.ObserveInt64(blocked, int64(s.Blocked), labels)
			o.ObserveInt64(up, one(d.unusable() == nil), labels)
			o.ObserveInt64(required, one(!d.Optional), labels)
			due := ofTable(d.Name, &report.Destinations[i].Backlog)
			for _, c := range engine.Causes {
				n := new(s.Held[c])
				if c == engine.CausePaused && d.paused.Load() {
					n = due // all that are pending wait for the end of the pause
				}
				rows(held, n, "destination", d.Name, "reason", c)
			}
		}
		if report.Untaken != nil {
			rows(held, ofTable(untaken, report.Untaken), "destination", untaken, "reason", engine.CauseTopology)
		}
		return nil
	}
	if _, err := meter.RegisterCallback(observe, append(all, oldest)...); err != nil {
		return fmt.Errorf("register gauges: %w", err)
	}
	return nil
}

// one returns 1 for true and 0 for false, as gauges have it.
func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
