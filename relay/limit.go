package relay

import (
	"math"
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

// limiter bounds how many rows a second are published to a destination. It is a bucket of tokens, one for each row that may be sent now: it
// fills at this replica's part of the rate, and holds those of one second, at least one. What did not reach the broker gives its tokens
// back, so that an outage does not use up a small rate.
//
// Only the loop touches it. A nil limiter bounds nothing.
type limiter struct {
	rate   float64 // rows a second, of all replicas together
	shards int     // in all
	share  float64 // rows a second that this replica may send
	tokens float64
	filled time.Time // when they were counted
}

const (
	// gather is for how long tokens gather before rows are sent that have used them up: one row at a time would cost more than it is worth.
	gather = 20 * time.Millisecond
	// readAhead is for how long the rows last that are read before they may be sent.
	readAhead = 2 * time.Second
)

// newLimiter returns the limiter of a destination, nil where it has no rate. The first row may be sent at once, however small the rate is.
func newLimiter(d *Destination, shards int) *limiter {
	if d.Rate == 0 {
		return nil
	}
	return &limiter{rate: d.Rate, shards: shards, tokens: 1}
}

// own takes note of how many shards this replica relays from now on. A greater part brings no tokens with it.
func (l *limiter) own(shards int, now time.Time) {
	if l == nil {
		return
	}
	l.fill(now)
	l.share = l.rate * float64(shards) / float64(l.shards)
	l.tokens = min(l.tokens, l.most())
}

// most is how many tokens there may be.
func (l *limiter) most() float64 { return max(1, l.share) }

func (l *limiter) fill(now time.Time) {
	if !l.filled.IsZero() {
		l.tokens = min(l.most(), l.tokens+l.share*now.Sub(l.filled).Seconds())
	}
	l.filled = now
}

// rows returns how many of so many rows may be sent now.
func (l *limiter) rows(n int, now time.Time) int {
	if l == nil {
		return n
	}
	if l.fill(now); l.tokens < l.enough() {
		return 0
	}
	return min(n, int(l.tokens))
}

// enough is how many tokens there must be for rows to be sent.
func (l *limiter) enough() float64 { return max(1, min(l.share*gather.Seconds(), l.most())) }

// next returns when rows may be sent.
func (l *limiter) next(now time.Time) time.Time {
	if l == nil {
		return time.Time{}
	}
	l.fill(now)
	switch missing := l.enough() - l.tokens; {
	case missing <= 0:
		return now
	case l.share == 0:
		return now.Add(time.Hour)
	default:
		return now.Add(time.Duration(missing/l.share*float64(time.Second)) + time.Millisecond)
	}
}

// spend takes the tokens of rows that are sent. Of those that did not reach the broker n is negative.
func (l *limiter) spend(n int) {
	if l != nil {
		l.tokens = min(l.most(), l.tokens-float64(n))
	}
}

// ahead returns how many rows there may be in memory that are not sent yet: more of them would only wait there.
func (l *limiter) ahead() int {
	if l == nil {
		return math.MaxInt
	}
	return int(l.tokens + l.share*readAhead.Seconds())
}

// furthest is what ahead returns at most.
func (l *limiter) furthest() int {
	if l == nil {
		return math.MaxInt
	}
	return int(l.most() + l.share*readAhead.Seconds())
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
			return d.limiter.next(now), true
		}
	}
	return time.Time{}, false
}
