package ledger

import (
	"slices"
	"time"
)

// A wait is the time from sending a row's COMMIT to the row's first arrival.
type wait struct {
	at   time.Time
	took time.Duration
}

// Latency summarizes the times from COMMIT to arrival; all fields are zero when no row arrived.
type Latency struct{ P50, P99, Longest time.Duration }

// Latency returns the latency of the rows that arrived since the given time.
func (l *Ledger) Latency(since time.Time) Latency {
	l.mu.Lock()
	defer l.mu.Unlock()
	var took []time.Duration
	for i := len(l.waits) - 1; i >= 0 && l.waits[i].at.After(since); i-- {
		took = append(took, l.waits[i].took)
	}
	if len(took) == 0 {
		return Latency{}
	}
	slices.Sort(took)
	last := len(took) - 1
	return Latency{P50: took[last/2], P99: took[last*99/100], Longest: took[last]}
}
