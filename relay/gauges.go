package relay

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// gauges registers the instruments that are read when somebody scrapes. A gauge that cannot be read disappears.
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
	blocked := gauge("blocked_keys", "Keys that wait behind a row that was refused, is held, or has failed (OUTBOX_ON_FAILED=block).")
	held := gauge("rows_held", "Rows that are known to wait, by reason. Rows of the same key behind them are not counted.")
	pending := gauge("pending_rows", "Rows that are due and neither relayed nor failed, counted up to 10001. The same from every replica: aggregate with max.")
	scheduled := gauge("scheduled_rows", "Rows with available_at to come, counted up to 10001. The same from every replica: aggregate with max.")
	failed := gauge("failed_rows", "Failed rows, counted up to 10001. The same from every replica: aggregate with max.")
	owned := gauge("shards_owned", "Shards that this replica holds.")
	unowned := gauge("shards_unowned", "Shards that nobody holds, as last seen by this replica: aggregate with max.")
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
		s := r.metrics.all()
		o.ObserveInt64(inFlight, int64(s.inFlight))
		o.ObserveInt64(blocked, int64(s.blocked))
		for d, l := range r.metrics.destinations {
			for _, c := range causes {
				o.ObserveInt64(held, r.metrics.of(d).held[c], l.held[c])
			}
		}
		for _, p := range r.probes {
			o.ObserveInt64(destinationUp, one(p.state() == nil && r.metrics.of(p.destination).down == nil), r.metrics.destinations[p.destination].destination)
		}
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
		counts, err := r.measured.measure(ctx, table)
		if counts.Pending != nil {
			o.ObserveInt64(pending, *counts.Pending)
		}
		if counts.Scheduled != nil {
			o.ObserveInt64(scheduled, *counts.Scheduled)
		}
		if counts.Failed != nil {
			o.ObserveInt64(failed, *counts.Failed)
		}
		if counts.Oldest != nil {
			o.ObserveFloat64(oldest, *counts.Oldest)
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

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
