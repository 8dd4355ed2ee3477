package outbox

import (
	"net"
	"sync"
	"time"
)

// link is a connection of [Links]. It knows since when somebody waits for the other side, to send something or to be sent something.
type link struct {
	net.Conn
	links *Links

	mu      sync.Mutex
	ready   bool      // to be used, after authentication
	pid     uint32    // of the server's process; 0 when it is not known
	waits   int       // reads and writes under way
	since   time.Time // of the last progress: when the present wait began, or the last one ended
	asked   time.Time // when the server was last asked about the present wait
	suspect bool      // and did not work for it
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

// Close ends the connection and what waits in it.
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

// progress notes that something has moved. The caller holds mu.
func (c *link) progress() { c.since, c.asked, c.suspect = time.Now(), time.Time{}, false }

// stalled reports whether the server does not answer while the connection is made, when nothing takes it long.
func (c *link) stalled(now time.Time, patience time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ready && c.waits > 0 && now.Sub(c.since) >= patience
}

// overdue returns the process to ask the server about, 0 if there is no need to.
func (c *link) overdue(now time.Time, patience time.Duration) (pid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits == 0 || now.Sub(c.since) < patience || !c.suspect && now.Sub(c.asked) < patience {
		return 0
	}
	return c.pid
}

// judge takes the answer of the server, asked at a time. dead says that the connection is half open, since then.
func (c *link) judge(asked time.Time, busy bool) (since time.Time, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits == 0 || c.since.After(asked) {
		return c.since, false // it has moved meanwhile
	}
	dead = c.suspect && !busy
	c.asked, c.suspect = asked, !busy
	return c.since, dead
}

// idleSince reports whether nobody waits for the other side, and nobody has since a time.
func (c *link) idleSince(since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waits == 0 && !c.since.After(since)
}
