package outbox

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Links are the connections of a pool, which can be closed whatever runs on them: a firewall or a proxy may have
// forgotten them, so that whatever is sent on them is lost silently, while new connections work. Where nothing on the
// way acknowledges in the server's place, [Dialer] finds a lost connection by itself. A proxy that acknowledges only
// leaves time to tell a lost answer from a slow one, so the caller resets all connections when the server has not even
// answered that a statement's time is over.
//
// Dial goes into the pool's configuration.
type Links struct {
	Silence time.Duration // how long a peer may acknowledge nothing

	mu   sync.Mutex
	open map[*link]struct{}
}

// link is a connection of [Links].
type link struct {
	net.Conn
	links *Links
}

// Close closes the connection and ends pending reads and writes.
func (c *link) Close() error {
	c.links.mu.Lock()
	delete(c.links.open, c)
	c.links.mu.Unlock()
	return c.Conn.Close()
}

// Dial connects as [Dialer] does, and remembers the connection until it is closed.
func (l *Links) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := Dialer(l.Silence).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &link{Conn: conn, links: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[*link]struct{}{}
	}
	l.open[c] = struct{}{}
	return c, nil
}

// Reset closes all connections and ends the statements that run on them.
func (l *Links) Reset() {
	l.mu.Lock()
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for c := range open {
		_ = c.Close() // nothing is sent on it any more
	}
}

// closePatience is how long the connections of a closed pool have to end politely.
const closePatience = time.Second

// ClosePool closes the pool, waits for its connections, and resets those that do not end within a moment: a connection
// that was cut off in the middle of a statement waits for what the server may still send.
func (l *Links) ClosePool(pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() { defer close(closed); pool.Close() }()
	ticker := time.NewTicker(closePatience)
	defer ticker.Stop()
	for {
		select {
		case <-closed:
			return
		case <-ticker.C:
			l.Reset()
		}
	}
}
