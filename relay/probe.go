package relay

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	probeEvery   = 5 * time.Second
	probeSoon    = 500 * time.Millisecond // after a failure
	probeTimeout = 3 * time.Second
)

var errNotProbed = errors.New("not reached yet")

// probe checks now and then whether a destination's broker can be reached, for /readyz and destination_up. Rows do not
// wait for its result: the engine tries a broker with rows. It is for the times in which there are none, and it lets
// the ownership know when this replica cannot publish and others can.
func (r *Relay) probe(ctx context.Context, d *Destination) {
	var logged []string // causes of the present outage; with several hosts, texts name sometimes one, sometimes another
	for before := errNotProbed; ctx.Err() == nil; {
		limited, cancel := context.WithTimeout(ctx, probeTimeout)
		err := d.ping(limited, r.config.Logger)
		cancel()
		if ctx.Err() != nil {
			return
		}
		d.pinged.Store(&err)
		if (err == nil) != (before == nil) {
			r.owner.Look() // this replica can publish again, or no longer can
		}
		wait := probeSoon
		switch cause := publisher.ShortOf(err); {
		case err == nil:
			if logged, wait = nil, probeEvery; before != nil {
				r.config.Logger.Info("destination can be reached", "destination", d.Name)
			}
		case !slices.Contains(logged, cause):
			logged = append(logged, cause)
			r.config.Logger.Warn("destination cannot be reached", "destination", d.Name, "error", err)
		}
		before = err
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// ping checks the broker once. After a panic nothing is known of the broker. The publisher stays in use, since ending
// what is under way in it would be worse.
func (d *Destination) ping(ctx context.Context, logger *slog.Logger) (err error) {
	ping := func() { err = d.Publisher.Ping(ctx) }
	if caught := d.guard(logger, "the destination seems to be out of reach", ping); caught != nil {
		return publisher.UnavailableError(publisher.ScopeDestination, "panic",
			"the publisher does not know whether the broker can be reached: %w", caught)
	}
	return err
}

// unusable returns why the destination cannot be used, or nil if it can. It cannot be used if the broker is not
// reached, or if its engine has found that nothing can be published to it.
func (d *Destination) unusable() error {
	last := d.pinged.Load()
	if last == nil {
		return errNotProbed
	}
	return cmp.Or(*last, d.snapshot().Down)
}
