package outbox

import (
	"unsafe"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// arena holds the bytes and headers of many rows in few allocations. A chunk stays in memory until the last row that
// uses it is released, so chunks are kept small. The first ones are much smaller: most pages have few rows.
type arena struct {
	chunk   []byte
	headers []publisher.Header
}

const (
	arenaFirst, arenaChunk          = 4 << 10, 64 << 10 // bytes of the first chunk, and of one at most
	arenaFirstHeaders, arenaHeaders = 16, 256
)

// grow makes room for n contiguous bytes.
func (a *arena) grow(n int) {
	if cap(a.chunk)-len(a.chunk) < n {
		a.chunk = make([]byte, 0, max(n, min(max(2*cap(a.chunk), arenaFirst), arenaChunk)))
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

// asString returns b as a string without copying it. b must not change afterwards.
func asString(b []byte) string {
	//nolint:gosec // saves a copy, and the arena never changes what it holds
	return unsafe.String(unsafe.SliceData(b), len(b))
}
