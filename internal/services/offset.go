package services

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
)

// ports are those of dev/services/ports.sh with the offset 0.
var ports = []int{25432, 25433, 26432, 29092, 29093, 24222, 28222, 26672, 26673, 27676, 24369}

// FreeOffset returns an offset for a [Set] with which all of its ports are free, and more as well, which are a test's
// own. It is random, because other tests may look for one at the same time, and never meets a set whose offset
// dev/services.sh has chosen, a multiple of 100. All ports are below those that Linux gives to outgoing connections: a
// server takes seconds to start, and until then other tests open many.
func FreeOffset(t testing.TB, more ...int) int {
	t.Helper()
	for range 100 {
		offset := 10*rand.IntN(200) + 5
		taken := func(port int) bool { return !free(t, port+offset) }
		if !slices.ContainsFunc(ports, taken) && !slices.ContainsFunc(more, taken) {
			return offset
		}
	}
	t.Fatal("no ports are free for a set of services of the test's own")
	return 0
}

func free(t testing.TB, port int) bool {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return false
	}
	_ = listener.Close()
	return true
}
