package relay

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// pauseEvery is the time between two checks for paused destinations.
const pauseEvery = time.Second

// every calls do now and at intervals until ctx ends.
func every(ctx context.Context, interval time.Duration, do func(now time.Time)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for now := time.Now(); ctx.Err() == nil; {
		do(now)
		select {
		case <-ctx.Done():
		case now = <-ticker.C:
		}
	}
}

// lookAtPauses records which destinations are paused. A pause is not trouble of this replica, which may own shards
// meanwhile.
func (r *Relay) lookAtPauses() {
	for _, d := range r.config.Destinations {
		if d.Paused == nil {
			continue
		}
		if now := d.Paused(); d.paused.Swap(now) != now {
			r.config.Logger.Warn("destination's pause", "destination", d.Name, "paused", now)
			r.config.wake(measure.SourceNone, false)
			r.owner.Look()
		}
	}
}
