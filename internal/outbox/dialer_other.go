//go:build !linux

package outbox

import (
	"syscall"
	"time"
)

// acknowledged does nothing: the option exists on Linux only.
func acknowledged(time.Duration) func(network, address string, conn syscall.RawConn) error {
	return nil
}
