package outbox

import (
	"net"
	"time"
)

// Dialer opens connections whose death the operating system notices, where it can: a peer that acknowledges nothing for
// the time of silence is gone, however long it may take to answer. A pooler or a proxy in between acknowledges even if
// the server is gone.
func Dialer(silence time.Duration) *net.Dialer {
	const probes = 3
	every := max(silence/(probes+1), time.Second) // the shortest possible interval
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: every, Interval: every, Count: probes},
		Control:         acknowledged(silence),
	}
}
