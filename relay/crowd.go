package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/keys"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// A crowd is many keys that wait as one. Few others are taken for one of them.
type crowd struct {
	wait
	keys keys.Set
}

// inCrowd returns the wait of the crowd that a key is in, if it is in one.
func (ws *waits) inCrowd(hash uint64) *wait {
	for _, c := range [...]*crowd{ws.crowd, ws.former} {
		if c != nil && c.keys.Has(hash) {
			return &c.wait
		}
	}
	return nil
}

// crowd lets a key wait with many others, since no more are remembered one by one.
func (d *dispatch) crowd(hash uint64, from int64, now time.Time) {
	d.tellCrowded(now)
	c := d.waits.crowd
	if c == nil {
		c = &crowd{wait: wait{shard: noShard, index: -1, head: everything, low: nothing, next: nothing}}
		d.waits.crowd = c
		d.waits.rest(&c.wait, causeOrder, now.Add(crowdRest))
	}
	c.keys.Add(hash)
	if c.low = min(c.low, from); d.waits.former != nil && d.waits.former.keys.Has(hash) {
		former := &d.waits.former.wait // something of the key that was to be brought may not have been
		if d.catch.covers(former) {
			c.low = min(c.low, former.next)
		} else {
			c.low = min(c.low, former.low)
		}
	}
	d.void = true
}

// scatter lets a crowd whose time is over be brought by a scan, unless one still is.
func (d *dispatch) scatter(now time.Time) {
	c := d.waits.crowd
	if d.waits.former != nil {
		d.waits.rest(&c.wait, causeOrder, now.Add(retry.ShortestHold))
		return
	}
	d.waits.crowd, d.waits.former = nil, c
	d.catchUp(&c.wait)
}

// tellCrowded tells that no more keys are remembered one by one.
func (d *dispatch) tellCrowded(now time.Time) {
	if now.After(d.crowded) {
		d.logger.Warn("more keys wait than are remembered one by one: the others are tried again every few seconds", "keys", len(d.waits.byKey))
	}
	d.crowded = now.Add(crowdedFor)
}

// crowdedFor is how long none must be before it is told again.
const crowdedFor = time.Minute
