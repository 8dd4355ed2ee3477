package outbox

import (
	"unsafe"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// arena holds the bytes and headers of many rows in few allocations. A chunk lives until the last row
// with something in it is forgotten, so a chunk is kept small.
type arena struct {
	chunk   []byte
	headers []publisher.Header
}

const (
	arenaChunk   = 64 << 10
	arenaHeaders = 256
)

// grow makes room for n bytes in one piece.
func (a *arena) grow(n int) {
	if cap(a.chunk)-len(a.chunk) < n {
		a.chunk = make([]byte, 0, max(n, arenaChunk))
	}
}

// bytes returns a copy of b that is not nil.
func (a *arena) bytes(b []byte) []byte {
	a.grow(len(b))
	start := len(a.chunk)
	a.chunk = append(a.chunk, b...)
	return a.chunk[start:len(a.chunk):len(a.chunk)]
}

// text returns a copy of b as a string.
func (a *arena) text(b []byte) string { return asString(a.bytes(b)) }

// asString returns b as a string without copying it; nobody may change b afterwards.
func asString(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // saves a copy of each id and key; the arena never changes what it holds
}
