package relay

import (
	"context"
	"log/slog"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// Ring wakes the relay: there may be new rows. If other replicas own shards, the ring is passed on to them. Ring never
// blocks.
func (r *Relay) Ring() {
	r.wake(measure.SourceDoorbell)
	if r.plan.Channel != "" && !r.ownsEverything() {
		r.bell.ring()
	}
}

// notified is called for each notification, and when a notification may have been missed.
func (r *Relay) notified(payload string) {
	switch payload {
	case owner.Given:
		r.owner.Look()
	case outbox.Switched:
		r.wake(measure.SourceNone)
	case outbox.Missed:
		r.changes.Add(1) // it may have been a command's
		r.wake(measure.SourceNone)
	case outbox.Operated:
		r.changes.Add(1)
		r.wake(measure.SourceListen)
	default:
		r.wake(measure.SourceListen)
	}
}

func (r *Relay) wake(source string) {
	select {
	case r.wakes <- source:
	default: // the loop is about to look anyway
	}
}

// bell passes the doorbell on to the other replicas, since the row may be in one of their shards. However often it is
// rung, one notification is on its way at a time and at most one more waits.
type bell struct {
	notify func(context.Context) error
	logger *slog.Logger
	rings  chan struct{} // has room for the notification that waits
}

func newBell(logger *slog.Logger, notify func(context.Context) error) *bell {
	return &bell{notify: notify, logger: logger, rings: make(chan struct{}, 1)}
}

const bellTimeout = 5 * time.Second

// ring asks for a notification. It does not block.
func (b *bell) ring() {
	select {
	case b.rings <- struct{}{}:
	default: // a notification waits already
	}
}

// run passes rings on until ctx ends. The end of ctx also interrupts a notification that is on its way.
func (b *bell) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.rings:
		}
		limited, cancel := context.WithTimeout(ctx, bellTimeout)
		err := b.notify(limited)
		cancel()
		if err != nil { // the other replicas find the row at their next poll
			b.logger.Debug("doorbell was not passed on", "error", err)
		}
	}
}
