package relay

import (
	"time"
)

// shares divides the limits of all among the destinations: each has the part that it was given, and the others have equal parts of what is
// left. Nowhere, whose rows are never sent, comes on top.
func (l Limits) shares(destinations []*Destination) map[*Destination]Limits {
	rows, bytes := parts{left: int64(l.Rows)}, parts{left: l.Bytes}
	for _, d := range destinations {
		if d.Name != nowhereName {
			rows.add(int64(d.MaxInFlight))
			bytes.add(d.MaxInFlightBytes)
		}
	}
	all := map[*Destination]Limits{}
	for _, d := range destinations {
		share := l
		share.Rows, share.Bytes = int(rows.of(int64(d.MaxInFlight))), bytes.of(d.MaxInFlightBytes)
		if d.Name == nowhereName {
			share.Rows, share.Bytes = min(share.Rows, nowhereRows), min(share.Bytes, nowhereBytes)
		}
		share.Batch = min(l.Batch, share.Rows)
		all[d] = share
	}
	return all
}

const (
	nowhereRows  = 100
	nowhereBytes = 1 << 20
)

// parts are those of a bound.
type parts struct {
	left    int64 // of the bound
	sharers int64 // destinations that share it
}

// add takes note of a destination with a part of its own, 0 for none.
func (p *parts) add(own int64) {
	p.left -= own
	if own == 0 {
		p.sharers++
	}
}

// of returns a destination's part.
func (p *parts) of(own int64) int64 {
	if own > 0 {
		return own
	}
	return max(1, p.left/max(1, p.sharers))
}

// queued counts the rows that wait in their lanes.
func (d *dispatch) queued() (n int) {
	for i := range d.lanes {
		n += d.lanes[i].len()
	}
	return n
}

// nextSend returns when rows may be sent that wait for the rate.
func (d *dispatch) nextSend(now time.Time) (time.Time, bool) {
	if d.limiter == nil || d.outage.active() {
		return time.Time{}, false
	}
	for i := range d.lanes {
		if d.lanes[i].wire == nil && d.lanes[i].len() > 0 {
			return d.limiter.Next(now), true
		}
	}
	return time.Time{}, false
}
