package connect

import (
	"net"
	"sync"
	"sync/atomic"
)

const (
	// mostQueued is the number of bytes that may wait to be written before calls should hand over no more messages.
	mostQueued = 1 << 20
	// corked is the number of bytes that are written at once while a burst is under way. Libraries flush after each
	// message: gathered writes saved a client of RabbitMQ 3 to 20 % of its processor time.
	corked = 64 << 10
	// mostSpare bounds the memory that is kept for reuse.
	mostSpare = 1 << 20
)

// A Conn is the network connection below a client's library, which writes to it in a goroutine of its own. The
// libraries write while they hold the lock that every message needs, and their writes cannot be interrupted: a peer
// that stops reading would stop all calls, beyond their own limits. A write to a Conn never waits. Calls look at Busy
// before they hand over a message, so that the queue stays small and each call waits for as long as it wants.
//
// There is no time limit either. A peer that reads slowly is not cut off, and what waits in the queue when the
// connection ends counts as sent, with an unknown outcome.
type Conn struct {
	net.Conn
	// Go runs a function in a goroutine.
	Go func(func())
	// Heard is called when the peer has sent something, whatever it is, by the goroutine that reads.
	Heard func()
	// Ended is called once, when a write or the connection has failed. Nothing is written afterwards, and further
	// writes are dropped: where in a message the write stopped is unknown.
	Ended func()

	queued  atomic.Int64          // number of bytes in queue
	failure atomic.Pointer[error] // the first reason for the end; the errors that follow from it say less

	mu           sync.Mutex
	queue, spare []byte
	bursts       int           // number of bursts under way
	writing      bool          // the goroutine is running
	room         chan struct{} // closed when the queue was taken; nil while nobody waits
}

// Read notes each sign of life of the peer.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.Heard()
	}
	return n, err
}

// Write queues the bytes. An error of the connection comes with the end of the reading.
func (c *Conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Failure() == nil {
		c.queue = append(c.queue, b...)
		c.wake()
	}
	return len(b), nil
}

// Fail ends the connection for the given reason, unless it has failed before.
func (c *Conn) Fail(err error) {
	if c.failure.CompareAndSwap(nil, &err) {
		c.Ended()
	}
}

// Failure returns the reason why this side has ended the connection, or nil if it has not.
func (c *Conn) Failure() error {
	if failed := c.failure.Load(); failed != nil {
		return *failed
	}
	return nil
}

// Burst begins (+1) or ends (-1) a burst of writes, which are gathered into few large ones. Bursts of several calls may
// overlap; while there is one, up to corked bytes wait for the next ones.
func (c *Conn) Burst(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bursts += n
	c.wake()
}

// wake starts the goroutine if there is something to write. c.mu is held.
func (c *Conn) wake() {
	c.queued.Store(int64(len(c.queue)))
	if n := len(c.queue); !c.writing && (n >= corked || n > 0 && c.bursts == 0) {
		c.writing = true
		c.Go(c.run)
	}
}

// run writes until the queue is empty. There is one run at a time, so the bytes stay in order. The two buffers take
// turns: one is filled while the other is written.
func (c *Conn) run() {
	for {
		b := c.take()
		if b == nil {
			return
		}
		if _, err := c.Conn.Write(b); err != nil {
			c.Fail(err)
		}
		c.mu.Lock()
		if c.spare = b[:0]; cap(b) > mostSpare {
			c.spare = nil
		}
		c.mu.Unlock()
	}
}

// take empties the queue, and returns nil if there is nothing to write.
func (c *Conn) take() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
	b := c.queue
	c.writing = c.Failure() == nil && len(b) > 0 && (c.bursts == 0 || len(b) >= corked)
	if !c.writing {
		return nil
	}
	c.queue, c.spare = c.spare, nil
	c.queued.Store(0)
	return b
}

// Busy returns nil if there is room for further messages, and otherwise a channel that is closed when there may be. It
// looks at a counter first, because it is asked before each message.
func (c *Conn) Busy() <-chan struct{} {
	if c.queued.Load() < mostQueued {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) < mostQueued {
		return nil
	}
	if c.room == nil {
		c.room = make(chan struct{})
	}
	return c.room
}
