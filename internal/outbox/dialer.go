package outbox

import (
	"net"
	"runtime"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, in milliseconds.
const tcpUserTimeout = 0x12

// Dialer opens connections whose death the operating system notices, where it can: a peer that acknowledges nothing for
// the time of silence is gone, however long it may take to answer. A pooler or a proxy in between acknowledges even if
// the server is gone. Only Linux bounds how long sent data may stay unacknowledged, which keep-alive probes do not.
func Dialer(silence time.Duration) *net.Dialer {
	const probes = 3
	every := max(silence/(probes+1), time.Second) // the shortest possible interval
	d := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: every, Interval: every, Count: probes},
	}
	if runtime.GOOS == "linux" {
		d.Control = func(_, _ string, conn syscall.RawConn) error {
			return conn.Control(func(fd uintptr) {
				// A Unix socket and a system without this option notice later.
				_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(silence.Milliseconds()))
			})
		}
	}
	return d
}
