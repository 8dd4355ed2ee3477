package nats

import (
	"net"
	"sync/atomic"
	"time"
)

const (
	// stallTimeout is how long a write may make no progress until the connection is given up.
	stallTimeout = 5 * time.Second
	// interruptGrace is how long a write may go on after interrupt.
	interruptGrace = 200 * time.Millisecond
	// chunk is what has to get through within stallTimeout: a large message takes several.
	chunk = 64 << 10
)

// A conn is the socket below nats.go, which writes while it holds the lock that every publish needs.
// A conn therefore never writes for long without progress, and it is closed after a failed write:
// nats.go itself would drop what it could not write and go on.
type conn struct {
	net.Conn
	failed atomic.Pointer[error] // of the write that ended the connection
	heard  atomic.Bool           // the other side has sent something
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		_ = c.SetWriteDeadline(time.Now().Add(stallTimeout)) // fails only when closed, as Write then does
		n, err := c.Conn.Write(b[written:min(written+chunk, len(b))])
		written += n
		if err != nil {
			c.failed.CompareAndSwap(nil, &err)
			_ = c.Close()
			return written, err
		}
	}
	return written, nil
}

// interrupt makes a write that is stuck at this moment fail soon, and with it the connection.
func (c *conn) interrupt() {
	_ = c.SetWriteDeadline(time.Now().Add(interruptGrace))
}
