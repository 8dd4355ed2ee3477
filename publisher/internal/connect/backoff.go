package connect

import (
	"math/rand/v2"
	"time"
)

const (
	firstPause = 50 * time.Millisecond
	// LongestPause is the longest pause. It is short because rows must flow within a second after the broker returns,
	// and because the caller has its own backoff. A broker that refuses this client logs each try.
	LongestPause = 500 * time.Millisecond
)

// A Backoff computes the pause between tries to connect. The pause doubles with each consecutive failure. The zero
// Backoff is ready for use, by one goroutine at a time or under a lock of its owner.
type Backoff struct{ last time.Duration }

// Next returns the pause after a failure. It is random within the upper half of the current pause, so that the clients
// of a restarted broker do not all return at once.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, firstPause), LongestPause)
	return b.last/2 + rand.N(b.last/2)
}

// Failed reports whether the last try failed.
func (b *Backoff) Failed() bool { return b.last > 0 }

// Reset makes the next pause the shortest one again.
func (b *Backoff) Reset() { b.last = 0 }
