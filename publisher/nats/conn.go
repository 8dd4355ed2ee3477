package nats

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// stallTimeout is how long a write may make no progress before the connection is given up.
	stallTimeout = 5 * time.Second
	// interruptGrace is how long a write may go on after interrupt.
	interruptGrace = 200 * time.Millisecond
	// chunk is the amount that must be written within stallTimeout. A large message takes several chunks.
	chunk = 64 << 10
)

// A conn is the socket below nats.go, which writes while it holds the lock that every publish needs. A conn therefore
// never writes for long without progress, and it is closed after a failed write. nats.go itself would drop what it
// could not write and go on.
type conn struct {
	net.Conn
	failed atomic.Pointer[error] // error of the write that ended the connection
	heard  atomic.Int64          // time at which the other side last sent something, in nanoseconds since 1970; 0 before that

	mu    sync.Mutex // held while a write's deadline is set
	until time.Time  // time limit for a write that was under way at the last interrupt
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

// limit sets the deadline for the next chunk of a write.
func (c *conn) limit(began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Now().Add(stallTimeout)
	if c.until.After(began) && c.until.Before(deadline) {
		deadline = c.until
	}
	_ = c.SetWriteDeadline(deadline) // fails only on a closed connection, as Write then does
}

// interrupt sets a time limit for a write that is under way, or that begins within interruptGrace. If the write does
// not end soon, it fails, even if it makes slow progress, and the connection fails with it.
func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(interruptGrace)
	_ = c.SetWriteDeadline(c.until)
}

// quiet reports whether the other side has sent nothing for the given time.
func (c *conn) quiet(d time.Duration) bool { return time.Since(time.Unix(0, c.heard.Load())) >= d }
