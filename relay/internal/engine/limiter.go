package engine

import (
	"math"
	"time"
)

// A limiter limits how many rows per second are published. It is a bucket of tokens, one for each row that may be sent
// now. The bucket fills at this replica's part of the rate, and holds the tokens of one second, but at least one. Rows
// that did not reach the broker give their tokens back, so that an outage does not use up a small rate. (The usual
// package for this, x/time/rate, takes no tokens back.)
//
// Replicas do not talk about it. Each sends the part of the rate that its part of the shards is, so while shards change
// hands the sum is never more than the rate.
type limiter struct {
	rate   float64   // rows per second, of all replicas together; 0 for any number
	share  float64   // rows per second that this replica may send
	tokens float64   // one at first: the first row may be sent at once, however small the rate is
	filled time.Time // when tokens were last counted; zero before the first time
}

const (
	// gather is the time for which tokens gather after rows have used them up, since sending one row at a time would
	// cost more than it gains.
	gather = 20 * time.Millisecond
	// readAhead is how long the rows last that are read before they may be sent: longer than a read takes in all but
	// trouble, so that a lane with tokens finds rows.
	readAhead = 2 * time.Second
)

// own records what part of the shards this replica relays from now on. A larger part does not add tokens by itself.
func (l *limiter) own(part float64, now time.Time) {
	l.fill(now)
	l.share = l.rate * part
	l.tokens = min(l.tokens, l.most())
}

// most returns the largest number of tokens that there may be.
func (l *limiter) most() float64 { return max(1, l.share) }

// fill counts the tokens. Callers do not all read the clock at the same moment, so now may be a little earlier than in
// the last call: taking tokens back for that would leave a bucket that holds a single token short of it for ever.
func (l *limiter) fill(now time.Time) {
	if now.Before(l.filled) {
		return
	}
	if !l.filled.IsZero() {
		l.tokens = min(l.most(), l.tokens+l.share*now.Sub(l.filled).Seconds())
	}
	l.filled = now
}

// sendable returns how many of n rows may be sent now. They are not taken from the bucket until they are spent.
func (l *limiter) sendable(n int, now time.Time) int {
	if l.rate == 0 {
		return n
	}
	if l.fill(now); l.tokens < l.enough() {
		return 0
	}
	return min(n, int(l.tokens))
}

// enough returns the number of tokens from which rows are sent.
func (l *limiter) enough() float64 { return max(1, min(l.share*gather.Seconds(), l.most())) }

// next returns when rows may be sent: now, if they may be, and in an hour, if this replica has no share at present. A
// millisecond is added, so that rounding does not make the loop wake a moment too early and turn again.
func (l *limiter) next(now time.Time) time.Time {
	l.fill(now)
	switch missing := l.enough() - l.tokens; {
	case l.rate == 0, missing <= 0:
		return now
	case l.share == 0:
		return now.Add(time.Hour)
	default:
		return now.Add(time.Duration(missing/l.share*float64(time.Second)) + time.Millisecond)
	}
}

// spend takes the tokens of n rows that are sent. n is negative for rows that did not reach the broker.
func (l *limiter) spend(n int) { l.tokens = min(l.most(), l.tokens-float64(n)) }

// ahead returns how many unsent rows there may be in memory if there are so many tokens. More would only wait there.
func (l *limiter) ahead(tokens float64) int {
	if l.rate == 0 {
		return math.MaxInt
	}
	return int(tokens + l.share*readAhead.Seconds())
}
