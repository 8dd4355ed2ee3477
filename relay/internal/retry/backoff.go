// Package retry decides when something that has failed is tried again.
package retry

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Backoff returns how long after its last refusal a row waits for the try numbered attempt: a random part (full jitter)
// of a bound that grows by a factor of two from one refusal to the next. The randomness comes from the row's id and
// attempt, so that every replica finds the same time without writing it down: a backoff that began before a restart or
// a takeover ends when it would have ended without. The first refusal is followed by the try numbered 2, with the bound
// least; the bound never exceeds most.
func Backoff(least, most time.Duration, id string, attempt int64) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash never fails
	part := rand.New(rand.NewPCG(h.Sum64(), uint64(attempt))).Float64()
	return time.Duration(part * float64(Doubled(least, most, attempt-2)))
}

// Doubled multiplies least by two n times, up to most.
func Doubled(least, most time.Duration, n int64) time.Duration {
	for ; n > 0 && least < most; n-- {
		least *= 2
	}
	return min(least, most)
}

// Pause returns how long to wait after the nth failure in a row of something that costs no attempt: an outage, a
// missing topic, an unreachable database. The bound is short, so that rows flow within a second of recovery, even with
// the pause of a publisher that has just failed to connect.
func Pause(n int) time.Duration {
	most := LongestPause(0, n)
	return most/2 + rand.N(most/2)
}

// LongestPause returns the bound of the pause of one of several causes that are each tried again by themselves. A pause
// is at least half as long. Each try costs a part of a read and a publish: the more causes there are, the longer each
// waits. With no other cause the bounds are 100, 200, 400 and then 500 ms. A thousand causes have 10.5 s each in the
// end, so that about a hundred are tried in a second. From 1,450 on the bound stays at 15 s.
func LongestPause(causes, n int) time.Duration {
	longest := min(ShortestHold+time.Duration(causes)*holdShare, longestHold)
	return Doubled(max(50*time.Millisecond, longest/16), longest, int64(n))
}

const (
	// ShortestHold is the bound for a single cause. Rows flow within a second of its end, a try included.
	ShortestHold = 500 * time.Millisecond
	holdShare    = 10 * time.Millisecond // added for each other cause
	longestHold  = 15 * time.Second
)
