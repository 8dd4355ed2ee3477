//go:build !linux

package outbox

import (
	"syscall"
	"time"
)

// acknowledged is for Linux only.
func acknowledged(time.Duration) func(network, address string, conn syscall.RawConn) error {
	return nil
}
