package feed

import (
	"slices"
	"time"
)

// lately is how long the last few of something took. The shortest tells what it costs; a longer one may have met a busy machine.
type lately struct {
	times [8]time.Duration
	n     int // in all
}

func (l *lately) add(took time.Duration) {
	l.times[l.n%len(l.times)] = took
	l.n++
}

func (l *lately) last() time.Duration { return l.times[(l.n-1)%len(l.times)] }

// full reports whether there have been enough.
func (l *lately) full() bool { return l.n >= len(l.times) }

// shortest is 0 until there have been enough.
func (l *lately) shortest() time.Duration { return slices.Min(l.times[:]) }
