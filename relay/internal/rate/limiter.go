// Package rate bounds how many rows a second are published, by all replicas together.
package rate

import (
	"math"
	"time"
)

// Limiter bounds how many rows a second are published. It is a bucket of tokens, one for each row that may be sent now: it
// fills at this replica's part of the rate, and holds those of one second, at least one. What did not reach the broker gives its tokens
// back, so that an outage does not use up a small rate.
//
// One goroutine uses it. A nil limiter bounds nothing.
type Limiter struct {
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

// New returns a limiter, nil without a rate. The first row may be sent at once, however small the rate is.
func New(rate float64, shards int) *Limiter {
	if rate == 0 {
		return nil
	}
	return &Limiter{rate: rate, shards: shards, tokens: 1}
}

// Own takes note of how many shards this replica relays from now on. A greater part brings no tokens with it.
func (l *Limiter) Own(shards int, now time.Time) {
	if l == nil {
		return
	}
	l.fill(now)
	l.share = l.rate * float64(shards) / float64(l.shards)
	l.tokens = min(l.tokens, l.most())
}

// most is how many tokens there may be.
func (l *Limiter) most() float64 { return max(1, l.share) }

func (l *Limiter) fill(now time.Time) {
	if !l.filled.IsZero() {
		l.tokens = min(l.most(), l.tokens+l.share*now.Sub(l.filled).Seconds())
	}
	l.filled = now
}

// Rows returns how many of so many rows may be sent now.
func (l *Limiter) Rows(n int, now time.Time) int {
	if l == nil {
		return n
	}
	if l.fill(now); l.tokens < l.enough() {
		return 0
	}
	return min(n, int(l.tokens))
}

// enough is how many tokens there must be for rows to be sent.
func (l *Limiter) enough() float64 { return max(1, min(l.share*gather.Seconds(), l.most())) }

// Next returns when rows may be sent.
func (l *Limiter) Next(now time.Time) time.Time {
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

// Spend takes the tokens of rows that are sent. Of those that did not reach the broker n is negative.
func (l *Limiter) Spend(n int) {
	if l != nil {
		l.tokens = min(l.most(), l.tokens-float64(n))
	}
}

// Ahead returns how many rows there may be in memory that are not sent yet: more of them would only wait there.
func (l *Limiter) Ahead() int {
	if l == nil {
		return math.MaxInt
	}
	return int(l.tokens + l.share*readAhead.Seconds())
}

// Furthest is what ahead returns at most.
func (l *Limiter) Furthest() int {
	if l == nil {
		return math.MaxInt
	}
	return int(l.most() + l.share*readAhead.Seconds())
}
