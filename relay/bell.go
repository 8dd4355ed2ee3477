package relay

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Ring wakes the relay: there may be new rows. If other replicas own shards, the ring is passed on to them. Ring never
// blocks.
func (r *Relay) Ring() {
	r.config.wake(measure.SourceDoorbell, false)
	select {
	case r.rings <- struct{}{}:
	default: // a notification waits already
	}
}

// passRings passes the doorbell on to the other replicas, since the row may be in one of their shards, until ctx ends.
// However often it is rung, one notification is on its way at a time and at most one more waits.
func (r *Relay) passRings(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.rings:
		}
		states, _ := r.owner.States()
		others := func(s owner.State) bool { return s.Owned.Len() < r.config.Shards }
		if r.plan.Channel == "" || len(states) > 0 && !slices.ContainsFunc(states, others) {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := r.pool.Exec(limited, sql.Text("notify.sql", nil), pgx.QueryExecModeExec, r.plan.Channel, "")
		cancel()
		if err != nil { // the other replicas find the row at their next poll
			r.config.Logger.Debug("doorbell was not passed on", "error", err)
		}
	}
}

// notified is called for each notification, and when a notification may have been missed.
func (r *Relay) notified(payload string) {
	switch payload {
	case owner.Given:
		r.owner.Look()
	case outbox.Switched, outbox.Missed: // what was missed may have been a command's
		r.config.wake(measure.SourceNone, payload == outbox.Missed)
	default:
		r.config.wake(measure.SourceListen, payload == outbox.Operated)
	}
}

// wake hints to the engines that there may be new rows, and that rows may have been changed by hand if changed is true.
func (c *Config) wake(source string, changed bool) {
	for _, d := range c.Destinations {
		if changed {
			d.changed.Store(true)
		}
		select {
		case d.hints <- source:
		default: // the loop is about to look anyway
		}
	}
}
