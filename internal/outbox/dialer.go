package outbox

import (
	"net"
	"time"
)

// Dialer opens connections whose death the operating system notices, where it can: when the other side acknowledges nothing for some
// time, it has gone, however long it may take to answer. A pooler or a proxy in between acknowledges for a server that has gone.
func Dialer(silence time.Duration) *net.Dialer {
	const probes = 3
	every := max(silence/(probes+1), time.Second) // the least that there is
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: every, Interval: every, Count: probes},
		Control:         acknowledged(silence),
	}
}
