package dispatch

import (
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/keys"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// A crowd is a large set of keys that wait as one. A few other keys may be taken for members of it.
type crowd struct {
	Wait
	keys keys.Set
}

// inCrowd returns the wait of the crowd that a key is in, or nil.
func (ws *waits) inCrowd(hash uint64) *Wait {
	for _, c := range [...]*crowd{ws.crowd, ws.former} {
		if c != nil && c.keys.Has(hash) {
			return &c.Wait
		}
	}
	return nil
}

// crowd makes a key wait with many others, since no more are remembered one by one.
func (d *Dispatch) crowd(hash uint64, from int64, now time.Time) {
	d.logCrowded(now)
	c := d.waits.crowd
	if c == nil {
		c = &crowd{Wait: Wait{shard: noShard, index: -1, head: everything, low: nothing, next: nothing}}
		d.waits.crowd = c
		d.waits.rest(&c.Wait, causeOrder, now.Add(crowdRest))
	}
	c.keys.Add(hash)
	if c.low = min(c.low, from); d.waits.former != nil && d.waits.former.keys.Has(hash) {
		former := &d.waits.former.Wait // rows of the key that were to be brought may not have been
		if d.catch.covers(former) {
			c.low = min(c.low, former.next)
		} else {
			c.low = min(c.low, former.low)
		}
	}
	d.void = true
}

// scatter makes a scan bring the rows of a crowd that has waited long enough. If the scan for the last crowd has not
// passed yet, the crowd waits on.
func (d *Dispatch) scatter(now time.Time) {
	c := d.waits.crowd
	if d.waits.former != nil {
		d.waits.rest(&c.Wait, causeOrder, now.Add(retry.ShortestHold))
		return
	}
	d.waits.crowd, d.waits.former = nil, c
	d.catchUp(&c.Wait)
}

// logCrowded logs that no more keys are remembered one by one.
func (d *Dispatch) logCrowded(now time.Time) {
	if now.After(d.crowded) {
		d.Logger.Warn("more keys wait than are remembered one by one: the others are tried again every few seconds",
			"keys", len(d.waits.byKey))
	}
	d.crowded = now.Add(crowdedFor)
}

// crowdedFor is how long there must have been no crowd before the next is logged.
const crowdedFor = time.Minute
