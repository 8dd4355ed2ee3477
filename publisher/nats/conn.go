package nats

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// mostQueued is the number of bytes that may wait to be written before calls hand over no further messages.
const mostQueued = 1 << 20

// A conn is the socket below nats.go, which writes while it holds the lock that every publish needs. A conn therefore
// never lets a write wait: it queues the bytes, and a goroutine writes them. Calls look at busy before they publish, so
// that the queue stays small and each call can wait for room for as long as it wants. After a failed write the conn is
// closed; nats.go itself would drop what it could not write and go on.
type conn struct {
	net.Conn
	heard atomic.Int64  // time at which the other side last sent something, in nanoseconds since 1970; 0 before that
	wake  chan struct{} // holds a signal that the queue is not empty
	ended chan struct{} // closed by Close
	done  chan struct{} // closed when the goroutine has ended
	end   sync.Once

	mu     sync.Mutex
	queue  []byte
	room   chan struct{} // closed and replaced when the queue has been taken; nil while nobody waits
	failed error         // error of the write that ended the connection, or why this client ended it
}

// explainTime is how long a server's reason for ending the connection may take to be read after a write has failed.
const explainTime = 200 * time.Millisecond

func newConn(socket net.Conn) *conn {
	c := &conn{Conn: socket, wake: make(chan struct{}, 1), ended: make(chan struct{}), done: make(chan struct{})}
	go c.drain()
	return c
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return 0, c.failed
	}
	c.queue = append(c.queue, b...)
	select {
	case c.wake <- struct{}{}:
	default: // the goroutine has not taken the last signal
	}
	return len(b), nil
}

// drain writes what is queued until the connection ends.
func (c *conn) drain() {
	defer close(c.done)
	var writing []byte
	for {
		select {
		case <-c.wake:
		case <-c.ended:
			return
		}
		c.mu.Lock()
		writing, c.queue = c.queue, writing[:0]
		c.mu.Unlock()
		_, err := c.Conn.Write(writing)
		if c.written(err) != nil {
			_ = c.SetReadDeadline(time.Now().Add(explainTime)) // the read that fails then ends the connection
			return
		}
		if cap(writing) > mostQueued {
			writing = nil
		}
	}
}

// written notes how a write has ended, and lets waiting calls look again.
func (c *conn) written(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && c.failed == nil && !errors.Is(err, net.ErrClosed) {
		c.failed = err
	}
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
	return err
}

// busy returns nil if there is room for further messages, and otherwise a channel that is closed when there may be.
func (c *conn) busy() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) < mostQueued || c.failed != nil {
		return nil
	}
	if c.room == nil {
		c.room = make(chan struct{})
	}
	return c.room
}

// Close ends the connection. What is still queued is not written.
func (c *conn) Close() error {
	c.end.Do(func() { close(c.ended) })
	err := c.Conn.Close()
	<-c.done
	return err
}

// fail closes the connection for a reason of this client's own.
func (c *conn) fail(why error) {
	_ = c.written(why)
	_ = c.Close()
}

// failure returns the reason why the connection ended, as far as this side knows it.
func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// quietSince reports whether the other side has sent nothing since the given time.
func (c *conn) quietSince(t time.Time) bool { return c.heard.Load() < t.UnixNano() }
