package cli

import (
	"os"
	"runtime/debug"
)

// Shares of the bound on bytes in flight that the heap takes: the rows themselves, and what a publisher makes of them.
const (
	heapShares = 5 // halves
	heapLeast  = 64 << 20
)

// limitMemory lets the garbage collector work harder before the heap is two and a half times what may be in flight, or one row: with large
// rows it would otherwise wait until it is twice as large again. GOMEMLIMIT, where given, is the limit instead.
func limitMemory(inFlight int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(heapLeast, inFlight/2*heapShares))
	}
}
