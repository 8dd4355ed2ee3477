// Package rate limits how many rows per second are published by all replicas together.
package rate

import (
	"math"
	"time"
)

// Limiter limits how many rows per second are published. It is a bucket of tokens, one for each row that may be sent
// now. The bucket fills at this replica's part of the rate, and holds the tokens of one second, but at least one. Rows
// that did not reach the broker give their tokens back, so that an outage does not use up a small rate.
//
// One goroutine uses it. A nil Limiter has no limit.
type Limiter struct {
	rate   float64 // rows per second, of all replicas together
	shards int     // total number
	share  float64 // rows per second that this replica may send
	tokens float64
	filled time.Time // when the tokens were last counted
}

const (
	// gather is the time for which tokens gather after rows have used them up, since sending one row at a time would
	// cost more than it gains.
	gather = 20 * time.Millisecond
	// readAhead is how long the rows last that are read before they may be sent.
	readAhead = 2 * time.Second
)

// New returns a limiter, or nil if rate is 0. The first row may be sent at once, however small the rate is.
func New(rate float64, shards int) *Limiter {
	if rate == 0 {
		return nil
	}
	return &Limiter{rate: rate, shards: shards, tokens: 1}
}

// Own records how many shards this replica relays from now on. A larger share does not add tokens by itself.
func (l *Limiter) Own(shards int, now time.Time) {
	if l == nil {
		return
	}
	l.fill(now)
	l.share = l.rate * float64(shards) / float64(l.shards)
	l.tokens = min(l.tokens, l.most())
}

// most returns the largest number of tokens that there may be.
func (l *Limiter) most() float64 { return max(1, l.share) }

// Fill counts the tokens, for [Limiter.Ahead].
func (l *Limiter) Fill(now time.Time) {
	if l != nil {
		l.fill(now)
	}
}

// fill counts the tokens. Callers do not all read the clock at the same moment, so now may be a little earlier than in
// the last call: taking tokens back for that would leave a bucket that holds a single token short of it for ever.
func (l *Limiter) fill(now time.Time) {
	if now.Before(l.filled) {
		return
	}
	if !l.filled.IsZero() {
		l.tokens = min(l.most(), l.tokens+l.share*now.Sub(l.filled).Seconds())
	}
	l.filled = now
}

// Rows returns how many of n rows may be sent now.
func (l *Limiter) Rows(n int, now time.Time) int {
	if l == nil {
		return n
	}
	if l.fill(now); l.tokens < l.enough() {
		return 0
	}
	return min(n, int(l.tokens))
}

// enough returns the number of tokens from which rows are sent.
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

// Spend takes the tokens of n rows that are sent. n is negative for rows that did not reach the broker.
func (l *Limiter) Spend(n int) {
	if l != nil {
		l.tokens = min(l.most(), l.tokens-float64(n))
	}
}

// Ahead returns how many unsent rows there may be in memory. More of them would only wait there.
func (l *Limiter) Ahead() int {
	if l == nil {
		return math.MaxInt
	}
	return int(l.tokens + l.share*readAhead.Seconds())
}

// Furthest returns the largest number that Ahead can return.
func (l *Limiter) Furthest() int {
	if l == nil {
		return math.MaxInt
	}
	return int(l.most() + l.share*readAhead.Seconds())
}
