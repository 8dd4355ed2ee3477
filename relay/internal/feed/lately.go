package feed

import (
	"slices"
	"time"
)

// lately holds the durations of the last few operations of a kind. The shortest shows what the operation costs; a
// longer one may have met a busy machine.
type lately struct {
	times []time.Duration
	n     int // total number
}

func newLately(number int) lately { return lately{times: make([]time.Duration, number)} }

func (l *lately) add(took time.Duration) {
	l.times[l.n%len(l.times)] = took
	l.n++
}

// enough is how many operations show what one costs.
const enough = 8

// full reports whether there have been enough operations.
func (l *lately) full() bool { return l.n >= enough }

// shortest returns the shortest duration, or 0 until there have been enough operations.
func (l *lately) shortest() time.Duration {
	if !l.full() {
		return 0
	}
	return slices.Min(l.times[:min(l.n, len(l.times))])
}

// median returns the median of at least enough durations.
func (l *lately) median() time.Duration {
	sorted := slices.Sorted(slices.Values(l.times[:min(l.n, len(l.times))]))
	return sorted[len(sorted)/2]
}
