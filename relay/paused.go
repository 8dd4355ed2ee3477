package relay

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// pauseEvery is how often it is looked whether destinations are paused.
const pauseEvery = time.Second

// followPauses looks every second which destinations are paused.
func (r *Relay) followPauses(ctx context.Context) {
	ticker := time.NewTicker(pauseEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.lookAtPauses()
		}
	}
}

// lookAtPauses takes note of which destinations are paused. A pause is no trouble of this replica: it may have shards all the same.
func (r *Relay) lookAtPauses() {
	changed := false
	for _, d := range r.config.Destinations {
		if d.Paused == nil || d.Paused() == d.paused.Load() {
			continue
		}
		changed = true
		if now := !d.paused.Load(); now {
			r.config.Logger.Warn("destination is paused: nothing is published to it", "destination", d.Name)
			d.paused.Store(true)
		} else {
			r.config.Logger.Info("destination is paused no longer", "destination", d.Name)
			d.paused.Store(false)
		}
	}
	if changed {
		r.wake(sourceNone)
		r.lookAtOwnership()
	}
}

// relayed returns which of the shards the engine relays: none while its destination is paused. What was read and not handed over is
// forgotten then, and read again afterwards: somebody may change or delete these rows meanwhile. What is on the wire is answered and
// settled. Shards go to other replicas as always.
func (e *engine) relayed(shards owner.Set) owner.Set {
	paused := e.to.paused.Load()
	if paused && !e.paused {
		e.arm(false) // nobody looks for rows, however often writers ring
	}
	if e.paused = paused; paused {
		return owner.Set{}
	}
	return shards
}
