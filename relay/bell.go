package relay

import (
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// Ring wakes the relay: there may be new rows. Other replicas find those of their shards at their next poll. Ring never
// blocks.
func (r *Relay) Ring() { r.config.wake(measure.SourceDoorbell, false) }

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
