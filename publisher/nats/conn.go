package nats

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostQueued is the number of bytes that may wait to be written before calls hand over no further messages.
	mostQueued = 1 << 20
	// writeTime is how long a write may take before the rest of it is queued.
	writeTime = 20 * time.Millisecond
	// reasonTime is how long a server's reason for ending the connection may take to be read after a write has failed.
	reasonTime = 200 * time.Millisecond
)

// A conn is the socket below nats.go, which writes while it holds the lock that every publish needs. A write to a conn
// therefore waits for a moment only. What the server does not take by then is queued, and a goroutine writes it. Calls
// look at busy before they publish, so that the queue stays small, and that each call can wait for room for as long as
// it wants. After a failed write the connection ends; nats.go itself would drop what it could not write and go on.
type conn struct {
	net.Conn
	heard  atomic.Int64  // time at which the other side last sent something, in nanoseconds since 1970; 0 before that
	queued atomic.Int64  // number of bytes in queue
	wake   chan struct{} // holds a signal that the queue is not empty
	ended  chan struct{} // closed by Close
	done   chan struct{} // closed when the goroutine has ended
	end    sync.Once

	mu     sync.Mutex
	queue  []byte
	behind bool          // the goroutine writes, and all further bytes go through the queue
	room   chan struct{} // closed and replaced when the queue has been taken; nil while nobody waits
	failed error         // error of the write that ended the connection, or why this client ended it
}

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
	written := 0
	if !c.behind {
		_ = c.SetWriteDeadline(time.Now().Add(writeTime)) // fails only on a closed connection, as the write then does
		n, err := c.Conn.Write(b)
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			c.fails(err)
			return n, err
		}
		_ = c.SetWriteDeadline(time.Time{})
		written, c.behind = n, true
		c.wake <- struct{}{}
	}
	c.queue = append(c.queue, b[written:]...)
	c.queued.Store(int64(len(c.queue)))
	return len(b), nil
}

// drain writes what is queued until the connection ends.
func (c *conn) drain() {
	defer close(c.done)
	for {
		select {
		case <-c.wake:
		case <-c.ended:
			return
		}
		for writing := c.taken(nil); len(writing) > 0; {
			_, err := c.Conn.Write(writing)
			writing = c.taken(err)
		}
	}
}

// taken notes how a write of the goroutine has ended, and returns what it writes next.
func (c *conn) taken(err error) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
	next := c.queue
	c.queue = nil
	c.queued.Store(0)
	if err != nil {
		c.fails(err)
		return nil
	}
	c.behind = len(next) > 0
	return next
}

// fails notes why the connection ends, and lets the read that is under way end it, after it has read the server's
// reason if there is one. c.mu is held.
func (c *conn) fails(err error) {
	if c.failed == nil && !errors.Is(err, net.ErrClosed) {
		c.failed = err
	}
	_ = c.SetReadDeadline(time.Now().Add(reasonTime))
}

// busy returns nil if there is room for further messages, and otherwise a channel that is closed when there may be.
func (c *conn) busy() <-chan struct{} {
	if c.queued.Load() < mostQueued {
		return nil
	}
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
	c.mu.Lock()
	c.fails(why)
	c.mu.Unlock()
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
