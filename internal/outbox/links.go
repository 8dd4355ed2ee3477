package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Links are the connections of a pool. Links finds connections that are half open: a firewall or a proxy has forgotten
// them, so that whatever is sent on them is lost silently, while new connections work. [Dialer] finds them where
// nothing on the way acknowledges in the server's place. For the others only time distinguishes a lost answer from a
// slow one.
// So the server is asked, over a new connection, about the session. A session that is working on a statement is left
// alone, however long the statement takes.
//
// Dial and Note go into the pool's configuration. The exported fields are the configuration of Links.
type Links struct {
	Connect  func(context.Context) (*pgx.Conn, error) // connects like the pool
	Patience time.Duration                            // how long an answer may take before the server is asked
	// Pooler says that the connections go through a pooler. The server's sessions are then unknown, and it is never asked.
	Pooler bool
	Logger *slog.Logger

	mu          sync.Mutex // also guards the links
	open        map[*link]struct{}
	unconfirmed atomic.Bool // commits wait for a synchronous standby
}

// link is a connection of [Links]. It knows how long a read or a write has been waiting for the other side.
type link struct {
	net.Conn
	links   *Links
	ready   bool      // authenticated and usable
	pid     uint32    // process id of the server's session; 0 if unknown
	waits   int       // reads and writes in progress
	since   time.Time // time of the last progress: when the present wait began, or the last one ended
	suspect bool      // the server was asked since then, and was not working for this connection
}

func (c *link) Read(b []byte) (int, error) {
	c.moved(1)
	defer c.moved(-1)
	return c.Conn.Read(b)
}

func (c *link) Write(b []byte) (int, error) {
	c.moved(1)
	defer c.moved(-1)
	return c.Conn.Write(b)
}

// moved notes that a read or a write has begun or ended.
func (c *link) moved(waits int) {
	c.links.mu.Lock()
	defer c.links.mu.Unlock()
	c.waits, c.since, c.suspect = c.waits+waits, time.Now(), false
}

// Close closes the connection and ends pending reads and writes.
func (c *link) Close() error {
	c.links.mu.Lock()
	delete(c.links.open, c)
	c.links.mu.Unlock()
	return c.Conn.Close()
}

// errUnconfirmed reports that the server writes and does not confirm it.
var errUnconfirmed = errors.New("commits wait for a synchronous standby that does not answer: bring it back, or take " +
	"it out of synchronous_standby_names; what was marked meanwhile is marked, and no row is lost")

// Unconfirmed returns why commits have not been confirmed for some time, nil if they are.
func (l *Links) Unconfirmed() error {
	if l.unconfirmed.Load() {
		return errUnconfirmed
	}
	return nil
}

// confirm records whether commits wait for a synchronous standby, and logs when that changes.
func (l *Links) confirm(unconfirmed bool) {
	switch was := l.unconfirmed.Swap(unconfirmed); {
	case unconfirmed && !was:
		l.Logger.Warn("commits wait for a synchronous standby that does not answer", "error", errUnconfirmed)
	case was && !unconfirmed:
		l.Logger.Info("commits no longer wait for a synchronous standby")
	}
}

// Dial connects as [Dialer] does, and watches the connection.
func (l *Links) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := Dialer(2*l.Patience).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &link{Conn: conn, links: l, since: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[*link]struct{}{}
	}
	l.open[c] = struct{}{}
	return c, nil
}

// Note records that a connection can be used, and its session at the server.
func (l *Links) Note(_ context.Context, conn *pgx.Conn) error {
	below := conn.PgConn().Conn()
	if encrypted, ok := below.(interface{ NetConn() net.Conn }); ok { // TLS
		below = encrypted.NetConn()
	}
	if c, ok := below.(*link); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		if c.ready = true; !l.Pooler {
			c.pid = conn.PgConn().PID()
		}
	}
	return nil
}

// which returns the connections that meet a condition.
func (l *Links) which(meets func(*link) bool) (links []*link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		if meets(c) {
			links = append(links, c)
		}
	}
	return links
}

// close closes the connections that meet a condition. The statements that run on them fail.
func (l *Links) close(meets func(*link) bool) {
	for _, c := range l.which(meets) {
		_ = c.Close() // nothing is sent on it any more
	}
}

// Reset closes all connections and ends the statements that run on them.
func (l *Links) Reset() { l.close(func(*link) bool { return true }) }

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

// Run closes half-open connections until ctx ends.
func (l *Links) Run(ctx context.Context) {
	ticker := time.NewTicker(l.Patience / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			l.examine(ctx, time.Now())
		}
	}
}

// examine asks the server about the connections that have waited for it too long. A connection is dead only if the
// server is found twice not to work for it: the first time its answer may have been on the way.
func (l *Links) examine(ctx context.Context, now time.Time) {
	silent := func(c *link, least time.Duration) bool { return c.waits > 0 && now.Sub(c.since) >= least }
	l.close(func(c *link) bool { // while a connection is made, every answer is quick
		stalls := !c.ready && silent(c, 2*l.Patience)
		if stalls {
			l.Logger.Warn("the database does not answer while a connection is made; it is closed")
		}
		return stalls
	})
	waiting := l.which(func(c *link) bool { return c.pid != 0 && silent(c, l.Patience) })
	if len(waiting) == 0 {
		l.confirm(false)
		return
	}
	pids := make([]int64, len(waiting))
	for i, c := range waiting {
		pids[i] = int64(c.pid)
	}
	busy, unconfirmed, err := l.busy(ctx, pids)
	if err != nil {
		return // the server cannot be asked, and new connections would not help either
	}
	l.confirm(unconfirmed)
	var lost time.Time // since when the last of the dead connections has been silent
	l.close(func(c *link) bool {
		if c.pid == 0 || !silent(c, l.Patience) || busy[int64(c.pid)] { // or there has been progress meanwhile
			c.suspect = false
			return false
		}
		dead := c.suspect
		c.suspect = true
		if dead {
			l.Logger.Warn("a connection to the database does not answer although the server does not work for it; it is closed",
				"silent", now.Sub(c.since).Round(time.Millisecond))
			if c.since.After(lost) {
				lost = c.since
			}
		}
		return dead
	})
	// Connections that have been silent since then are probably lost as well. Closing them costs only the time to open
	// others.
	l.close(func(c *link) bool { return c.waits == 0 && !c.since.After(lost) })
}

// busy returns the sessions that the server is working for, and whether the commit of one waits for a synchronous
// standby.
func (l *Links) busy(ctx context.Context, pids []int64) (busy map[int64]bool, unconfirmed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.Patience)
	defer cancel()
	conn, err := l.Connect(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("connect to database: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // the connection holds nothing
	rows, err := conn.Query(ctx, sql.Text("busy.sql", nil), pgx.QueryExecModeExec, pids)
	busy = map[int64]bool{}
	var pid int64
	var waits bool
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&pid, &waits}, func() error {
			busy[pid], unconfirmed = true, unconfirmed || waits
			return nil
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("look at sessions: %w", err)
	}
	return busy, unconfirmed, nil
}
