package outbox

import (
	"net"
	"sync"
	"time"
)

// link is a connection of [Links]. It knows how long a read or a write has been waiting for the other side.
type link struct {
	net.Conn
	links *Links

	mu      sync.Mutex
	ready   bool      // authenticated and usable
	pid     uint32    // process id of the server's session; 0 if unknown
	waits   int       // reads and writes in progress
	since   time.Time // time of the last progress: when the present wait began, or the last one ended
	asked   time.Time // when the server was last asked about the present wait
	suspect bool      // the server was asked, and was not working for this connection
}

// linkOf returns the link below a connection, nil if there is none.
func linkOf(conn net.Conn) *link {
	for {
		switch c := conn.(type) {
		case *link:
			return c
		case interface{ NetConn() net.Conn }: // TLS
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

func (c *link) Read(b []byte) (int, error) {
	c.begin()
	defer c.end()
	return c.Conn.Read(b)
}

func (c *link) Write(b []byte) (int, error) {
	c.begin()
	defer c.end()
	return c.Conn.Write(b)
}

// Close closes the connection and ends pending reads and writes.
func (c *link) Close() error {
	c.links.mu.Lock()
	delete(c.links.open, c)
	c.links.mu.Unlock()
	return c.Conn.Close()
}

func (c *link) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits++
	c.progress()
}

func (c *link) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits--
	c.progress()
}

// progress records that data has moved. The caller holds mu.
func (c *link) progress() { c.since, c.asked, c.suspect = time.Now(), time.Time{}, false }

// stalled reports whether the server has stopped answering while the connection is being established, a phase in which
// every answer is quick.
func (c *link) stalled(now time.Time, patience time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ready && c.waits > 0 && now.Sub(c.since) >= patience
}

// overdue returns the process id to ask the server about, 0 if there is no need to ask.
func (c *link) overdue(now time.Time, patience time.Duration) (pid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits == 0 || now.Sub(c.since) < patience || !c.suspect && now.Sub(c.asked) < patience {
		return 0
	}
	return c.pid
}

// judge takes the server's answer to a question asked at the given time. dead reports that the connection is half open,
// and has been since the returned time.
func (c *link) judge(asked time.Time, busy bool) (since time.Time, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits == 0 || c.since.After(asked) {
		return c.since, false // there has been progress meanwhile
	}
	dead = c.suspect && !busy
	c.asked, c.suspect = asked, !busy
	return c.since, dead
}

// idleSince reports whether the connection is idle and has been idle since the given time.
func (c *link) idleSince(since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waits == 0 && !c.since.After(since)
}
