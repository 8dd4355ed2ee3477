package relay

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

const (
	probeEvery   = 3 * time.Second
	probeTimeout = 3 * time.Second
)

// probe checks now and then whether a destination's broker can be reached, for /readyz and destination_up. Rows do not
// wait for its result: the engine tries a broker with rows. It is for the times in which there are none, and it lets
// the ownership know when this replica cannot publish and others can.
func (r *Relay) probe(ctx context.Context, d *Destination) {
	every(ctx, probeEvery, func(time.Time) {
		limited, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		var err error
		// After a panic nothing is known of the broker. The publisher stays in use, since ending what is under way in
		// it would be worse.
		caught := d.guard(r.config.Logger, "the destination seems to be out of reach", func() {
			err = d.Publisher.Ping(limited)
		})
		if caught != nil {
			err = fmt.Errorf("the publisher does not know whether the broker can be reached: %w", caught)
		}
		if before := d.unusable(); ctx.Err() == nil {
			d.pinged.Store(&err)
			if (err == nil) != (before == nil) {
				r.owner.Look() // this replica can publish again, or no longer can
			}
		}
	})
}

// unusable returns why the destination cannot be used, or nil if it can. It cannot be used if the broker is not
// reached, or if its engine has found that nothing can be published to it.
func (d *Destination) unusable() error {
	last := d.pinged.Load()
	if last == nil {
		return errUnknown
	}
	return cmp.Or(*last, d.snapshot().Down)
}
