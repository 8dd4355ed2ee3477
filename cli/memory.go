package cli

import (
	"os"
	"runtime/debug"
)

// Shares of the heap relative to the bound on bytes in flight: the rows themselves, and what a publisher makes of them.
const (
	heapShares = 5 // in halves
	heapLeast  = 64 << 20
)

// limitMemory makes the garbage collector work harder before the heap reaches two and a half times the bytes that may
// be in flight, or of one row: with large rows it would otherwise wait until the heap has doubled. If GOMEMLIMIT is
// set, it is the limit instead.
func limitMemory(inFlight int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(heapLeast, inFlight/2*heapShares))
	}
}
