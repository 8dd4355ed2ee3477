package nats

import (
	"net"
	"sync"
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
	heard  atomic.Int64          // when the other side sent something last, in nanoseconds since 1970; 0 before it has

	mu    sync.Mutex // while a write's deadline is set
	until time.Time  // by when a write had to end that was under way at the last interrupt
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	written, began := 0, time.Now()
	for written < len(b) {
		c.limit(began)
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

// limit sets the deadline of the next chunk of a write.
func (c *conn) limit(began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Now().Add(stallTimeout)
	if c.until.After(began) && c.until.Before(deadline) {
		deadline = c.until
	}
	_ = c.SetWriteDeadline(deadline) // fails only when closed, as Write then does
}

// interrupt makes a write that is under way at this moment, or begins within interruptGrace, fail unless it ends soon, also one
// that gets on slowly. The connection fails with it.
func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(interruptGrace)
	_ = c.SetWriteDeadline(c.until)
}

// quiet reports whether the other side has sent nothing for some time.
func (c *conn) quiet(d time.Duration) bool { return time.Since(time.Unix(0, c.heard.Load())) >= d }
