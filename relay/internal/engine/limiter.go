package engine

import (
	"math"
	"time"
)

// A rate limits how many rows per second are published. There is a bucket of tokens, one for each row that may be sent
// now. The bucket fills at this replica's part of the rate, and holds the tokens of one second, but at least one. Rows
// that did not reach the broker give their tokens back, so that an outage does not use up a small rate. (The usual
// package for this, x/time/rate, takes no tokens back.)
//
// Replicas do not talk about it. Each sends the part of the rate that its part of the shards is, so while shards change
// hands the sum is never more than the rate.

const (
	// gather is the time for which tokens gather after rows have used them up, since sending one row at a time would
	// cost more than it gains.
	gather = 20 * time.Millisecond
	// readAhead is how long the rows last that are read before they may be sent: longer than a read takes in all but
	// trouble, so that a lane with tokens finds rows.
	readAhead = 2 * time.Second
)

// share returns how many rows per second this replica may send.
func (e *Engine) share() float64 { return e.Rate * float64(e.shards.active.Len()) / float64(e.Shards) }

// mostTokens returns the largest number of tokens that there may be.
func (e *Engine) mostTokens() float64 { return max(1, e.share()) }

// fill counts the tokens. Callers do not all read the clock at the same moment, so now may be a little earlier than in
// the last call: taking tokens back for that would leave a bucket that holds a single token short of it for ever.
func (e *Engine) fill(now time.Time) {
	if now.Before(e.filled) {
		return
	}
	if !e.filled.IsZero() {
		e.tokens = min(e.mostTokens(), e.tokens+e.share()*now.Sub(e.filled).Seconds())
	}
	e.filled = now
}

// sendable returns how many of n rows may be sent now. They are not taken from the bucket until they are spent.
func (e *Engine) sendable(n int, now time.Time) int {
	if e.Rate == 0 {
		return n
	}
	if e.fill(now); e.tokens < e.enough() {
		return 0
	}
	return min(n, int(e.tokens))
}

// enough returns the number of tokens from which rows are sent.
func (e *Engine) enough() float64 { return max(1, min(e.share()*gather.Seconds(), e.mostTokens())) }

// next returns when rows may be sent: now, if they may be, and in an hour at the latest: this replica may have no share
// at present. A millisecond is added, so that rounding does not make the loop wake a moment too early and turn again.
func (e *Engine) next(now time.Time) time.Time {
	e.fill(now)
	missing := e.enough() - e.tokens
	if e.Rate == 0 || missing <= 0 {
		return now
	}
	return now.Add(time.Duration(min(missing/e.share(), 3600)*float64(time.Second)) + time.Millisecond)
}

// spend takes the tokens of n rows that are sent. n is negative for rows that did not reach the broker.
func (e *Engine) spend(n int) { e.tokens = min(e.mostTokens(), e.tokens-float64(n)) }

// ahead returns how many unsent rows there may be in memory if there are so many tokens. More would only wait there.
func (e *Engine) ahead(tokens float64) int {
	if e.Rate == 0 {
		return math.MaxInt
	}
	return int(tokens + e.share()*readAhead.Seconds())
}
