package dispatch

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// An outage is a time in which nothing can be published to the destination. Rows that were taken stay in their lanes,
// in order, and a batch of them tries now and then. Only the dispatch touches it.
type outage struct {
	cause    Cause
	err      error
	failures int // in a row; 0 if there is no outage
	until    time.Time
	probing  bool
}

func (o *outage) active() bool { return o.failures > 0 }

// fail begins the outage or prolongs it, and reports whether it began.
func (o *outage) fail(c Cause, err error, now time.Time) bool {
	o.cause, o.err = c, err
	o.failures++
	o.until, o.probing = now.Add(retry.Pause(o.failures)), false
	return o.failures == 1
}

// waits reports whether nothing may be published now.
func (o *outage) waits(now time.Time) bool {
	return o.active() && (o.probing || now.Before(o.until))
}

// Triable returns when heads may be read. During an outage, reading them is useful only if nothing is queued that could
// try the destination.
func (d *Dispatch) Triable() time.Time {
	if !d.outage.active() {
		return time.Time{}
	}
	if d.laden() {
		return d.outage.until.Add(time.Hour)
	}
	return d.outage.until
}

// laden reports whether rows are queued or on the wire.
func (d *Dispatch) laden() bool {
	return slices.ContainsFunc(d.lanes, func(l lane) bool { return l.wire != nil || l.len() > 0 })
}

// outageWithoutRows ends an outage of which no row is left that could try the destination now: they have expired, or their shards were
// given away. Whether the broker can be reached, the probe says; without this, the destination would count as down until the next row
// comes, or the next head has waited for its backoff.
func (d *Dispatch) outageWithoutRows(now time.Time) {
	switch {
	case !d.outage.active(), d.outage.waits(now):
		return
	case d.laden(), len(d.asking)+len(d.askingHeld) > 0, d.ScanWanted(): // these try, or bring what does
		return
	case d.waits.counts[CauseUnavailable] > 0: // these could not be published, and try again each by itself
		return
	}
	d.outage = outage{}
	d.To.Reported.Over()
	d.Logger.Info("nothing tries the destination any longer; the next row that is read does")
}

// waiting reports whether rows are queued for an idle worker.
func (d *Dispatch) waiting() bool {
	return slices.ContainsFunc(d.lanes, func(l lane) bool { return l.wire == nil && l.len() > 0 && !l.idle })
}
