package relay

import (
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/metric"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
)

// gauges registers the instruments that are read at a scrape. A gauge that cannot be read is left out.
func (r *Relay) gauges(meter metric.Meter) error {
	var failure error
	var all []metric.Observable
	gauge := func(name, description string) metric.Int64Observable {
		g, err := meter.Int64ObservableGauge(name, metric.WithDescription(description))
		if err != nil && failure == nil {
			failure = fmt.Errorf("metric %s: %w", name, err)
		}
		all = append(all, g)
		return g
	}
	inFlight := gauge("in_flight_rows", "Rows read and not yet settled.")
	blocked := gauge("blocked_keys", "Keys that wait for a row that was refused, is held, or has failed (if failed rows block their keys).")
	held := gauge("rows_held", "Rows that are known to wait, by reason. Later rows of their keys are not counted. "+
		"Of a paused destination all due rows are, up to 10001.")
	pending := gauge("pending_rows",
		"Rows that are due and neither relayed nor failed, counted up to 10001. The same from every replica: aggregate with max.")
	scheduled := gauge("scheduled_rows",
		"Rows with available_at to come, counted up to 10001. The same from every replica: aggregate with max.")
	failed := gauge("failed_rows", "Failed rows, counted up to 10001. The same from every replica: aggregate with max.")
	tableBytes := gauge("table_bytes",
		"Bytes of the table on disk, with its indexes and all partitions. The same from every replica: aggregate with max.")
	deadRows := gauge("table_dead_rows", "Rows that vacuum has not removed from the table, as far as the server's statistics know. "+
		"The same from every replica: aggregate with max.")
	ready := gauge("ready", "Whether /readyz answers that the relay is ready.")
	owned := gauge("shards_owned", "Shards that this replica holds.")
	unowned := gauge("shards_unowned", "Shards that no replica holds, as last seen by this replica: aggregate with max.")
	replicas := gauge("replicas", "Replicas that share the outbox.")
	databaseUp := gauge("database_up", "Whether the last contact with the database succeeded, whoever made it.")
	destinationUp := gauge("destination_up", "Whether the broker can be reached and takes messages.")
	listenerUp := gauge("listener_up", "Whether notifications arrive.")
	oldest, err := meter.Float64ObservableGauge("oldest_pending_age", metric.WithUnit("s"),
		metric.WithDescription("How long the first pending row in table order has been due. The same from every replica: aggregate with max."))
	if err != nil {
		return fmt.Errorf("metric oldest_pending_age: %w", err)
	}
	if failure != nil {
		return failure
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		for _, d := range r.config.Destinations {
			s := d.snapshot()
			o.ObserveInt64(inFlight, int64(s.InFlight), d.measured.Labelled())
			o.ObserveInt64(blocked, int64(s.Blocked), d.measured.Labelled())
			for _, c := range dispatch.Causes {
				if c != dispatch.CausePaused { // paused rows are counted in the table
					o.ObserveInt64(held, s.Held[c], d.measured.Labelled("reason", c))
				}
			}
		}
		for _, d := range configured(r.config.Destinations) {
			o.ObserveInt64(destinationUp, one(d.unusable() == nil), d.measured.Labelled())
		}
		o.ObserveInt64(ready, one(!slices.ContainsFunc(r.Ready(), func(c Check) bool { return c.Err != nil })))
		o.ObserveInt64(listenerUp, one(r.listener.Up()))
		state, _ := r.owner.State()
		o.ObserveInt64(owned, int64(state.Owned.Len()+state.Leaving.Len()))
		if state.Replicas > 0 {
			o.ObserveInt64(replicas, int64(state.Replicas))
			o.ObserveInt64(unowned, int64(state.Unowned))
		}
		o.ObserveInt64(databaseUp, one(r.unreachable() == nil))
		table, _ := r.state()
		if table == nil {
			return nil
		}
		views, size, err := r.measured.measure(ctx, table, r.views)
		for i, counts := range views {
			d := r.config.Destinations[i]
			if counts.Pending != nil {
				o.ObserveInt64(pending, *counts.Pending, d.measured.Labelled())
			}
			if counts.Scheduled != nil {
				o.ObserveInt64(scheduled, *counts.Scheduled, d.measured.Labelled())
			}
			if counts.Failed != nil {
				o.ObserveInt64(failed, *counts.Failed, d.measured.Labelled())
			}
			if counts.Oldest != nil {
				o.ObserveFloat64(oldest, *counts.Oldest, d.measured.Labelled())
			}
			switch {
			case !d.paused.Load():
				o.ObserveInt64(held, 0, d.measured.Labelled("reason", dispatch.CausePaused))
			case counts.Pending != nil:
				o.ObserveInt64(held, *counts.Pending, d.measured.Labelled("reason", dispatch.CausePaused))
			}
		}
		if size != nil {
			o.ObserveInt64(tableBytes, size.Bytes)
			o.ObserveInt64(deadRows, size.DeadRows)
		}
		if err != nil {
			r.config.Logger.Debug("table gauges were not measured", "error", err)
		}
		return nil
	}, append(all, oldest)...)
	if err != nil {
		return fmt.Errorf("register gauges: %w", err)
	}
	return nil
}

// views returns the table as each destination sees it, or nil for a destination whose columns the table lacks.
func (r *Relay) views(table *outbox.Table) []*outbox.Table {
	var views []*outbox.Table
	for _, v := range r.plan.Views {
		view, _ := table.For(v) // the readiness reports what is missing
		views = append(views, view)
	}
	return views
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
