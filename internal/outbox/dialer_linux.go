package outbox

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, in milliseconds.
const tcpUserTimeout = 0x12

// acknowledged bounds how long sent data may stay unacknowledged, which keep-alive probes do not.
func acknowledged(within time.Duration) func(network, address string, conn syscall.RawConn) error {
	return func(network, _ string, conn syscall.RawConn) error {
		if network == "unix" {
			return nil
		}
		return conn.Control(func(fd uintptr) {
			// A system without this option notices later.
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(within.Milliseconds()))
		})
	}
}
