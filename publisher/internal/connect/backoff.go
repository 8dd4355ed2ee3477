package connect

import (
	"math/rand/v2"
	"time"
)

const (
	firstPause = 50 * time.Millisecond
	// quietPause is the longest pause while nothing answers. It is short because rows must flow within a second after
	// the broker returns, and because the caller has its own backoff: after an outage of 30 seconds, rows flowed again
	// within 0.9 seconds at worst with each of the three brokers.
	quietPause = 250 * time.Millisecond
	// LongestPause is the longest pause while the broker refuses this client, which the broker logs each time.
	LongestPause = time.Second
)

// A Backoff computes the pause between tries to connect. The pause doubles with each consecutive failure. The zero
// Backoff is ready for use, by one goroutine at a time or under a lock of its owner.
type Backoff struct{ last time.Duration }

// After returns the pause after a failure. It is random within the upper half of the current pause, so that the clients
// of a restarted broker do not all return at once. A broker that refuses this client (its login, or a limit) logs each
// try; one that is away logs nothing.
func (b *Backoff) After(failure error) time.Duration {
	longest := LongestPause
	if absent(failure) {
		longest = quietPause
	}
	b.last = min(max(2*b.last, firstPause), longest)
	return b.last/2 + rand.N(b.last/2)
}

// Failed reports whether the last try failed.
func (b *Backoff) Failed() bool { return b.last > 0 }

// Reset makes the next pause the shortest one again.
func (b *Backoff) Reset() { b.last = 0 }
