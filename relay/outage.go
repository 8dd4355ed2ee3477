package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// An outage is a time in which nothing can be published to the destination. What was taken stays in its lanes, in order, and one real
// batch tries now and then. Only the dispatch touches it.
type outage struct {
	cause    cause
	err      error
	failures int // in a row; 0 when there is no outage
	until    time.Time
	probing  bool
}

func (o *outage) active() bool { return o.failures > 0 }

// fail begins the outage or prolongs it, and reports whether it began.
func (o *outage) fail(c cause, err error, now time.Time) bool {
	o.cause, o.err = c, err
	o.failures++
	o.until, o.probing = now.Add(retry.Pause(o.failures)), false
	return o.failures == 1
}

// waits reports whether nothing may be published now.
func (o *outage) waits(now time.Time) bool {
	return o.active() && (o.probing || now.Before(o.until))
}

// triable returns when heads may be read. During an outage that is of use only when nothing is queued that could try the destination.
func (d *dispatch) triable() time.Time {
	if !d.outage.active() {
		return time.Time{}
	}
	for i := range d.lanes {
		if d.lanes[i].wire != nil || d.lanes[i].len() > 0 {
			return d.outage.until.Add(time.Hour)
		}
	}
	return d.outage.until
}

// nextTry returns when queued rows may try the destination.
func (d *dispatch) nextTry() (time.Time, bool) {
	if !d.outage.active() || d.outage.probing {
		return time.Time{}, false
	}
	for i := range d.lanes {
		if d.lanes[i].wire == nil && d.lanes[i].len() > 0 {
			return d.outage.until, true
		}
	}
	return time.Time{}, false
}
