package relay

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
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
	changed := false
	for _, d := range r.config.Destinations {
		if d.Paused == nil {
			continue
		}
		now := d.Paused()
		if d.paused.Swap(now) == now {
			continue
		}
		changed = true
		r.config.Logger.Warn("destination's pause", "destination", d.Name, "paused", now)
	}
	if changed {
		r.config.wake(measure.SourceNone, false)
		r.owner.Look()
	}
}

// relayed returns which of the shards the engine relays: none while its destination is paused. Rows that were read and
// not handed over are forgotten when the pause begins and read again after it, since another session may change or
// delete them meanwhile. What is on the wire is answered and settled. Shards still move between replicas.
func (l *loop) relayed(shards owner.Set) owner.Set {
	if l.to.paused.Load() {
		shards = owner.Set{}
	}
	if shards == (owner.Set{}) {
		l.arm(false)
	}
	return shards
}
