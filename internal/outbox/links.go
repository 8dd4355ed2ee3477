package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Links are the connections of a pool. Links finds connections that are half open: a firewall has forgotten them, so
// that whatever is sent on them is lost silently, while new connections work. Only time distinguishes a lost answer
// from a slow one. So the server is asked, over a new connection, about the session. A session that is working on a
// statement is left alone, however long the statement takes.
//
// Dial and Note go into the pool's configuration. The exported fields are the configuration of Links.
type Links struct {
	Connect  func(context.Context) (*pgx.Conn, error) // connects like the pool
	Patience time.Duration                            // how long an answer may take before the server is asked
	// Pooler says that the connections go through a pooler. The server's sessions are then unknown, and it is never asked.
	Pooler bool
	Logger *slog.Logger

	mu          sync.Mutex
	open        map[*link]struct{}
	unconfirmed bool // commits wait for a synchronous standby
}

// errUnconfirmed reports that the server writes and does not confirm it.
var errUnconfirmed = errors.New("commits wait for a synchronous standby that does not answer: bring it back, or take it out of " +
	"synchronous_standby_names; what was marked meanwhile is marked, and no row is lost")

// Unconfirmed returns why commits have not been confirmed for some time, nil if they are.
func (l *Links) Unconfirmed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unconfirmed {
		return errUnconfirmed
	}
	return nil
}

// confirm records whether commits wait for a synchronous standby, and logs when that changes.
func (l *Links) confirm(unconfirmed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case unconfirmed && !l.unconfirmed:
		l.Logger.Warn("commits wait for a synchronous standby that does not answer", "error", errUnconfirmed)
	case !unconfirmed && l.unconfirmed:
		l.Logger.Info("commits no longer wait for a synchronous standby")
	}
	l.unconfirmed = unconfirmed
}

// Dial connects as [Dialer] does, and watches the connection.
func (l *Links) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := Dialer(2*l.Patience).DialContext(ctx, network, address)
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

// Note records that a connection can be used, and its session at the server.
func (l *Links) Note(_ context.Context, conn *pgx.Conn) error {
	if c := linkOf(conn.PgConn().Conn()); c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ready = true; !l.Pooler {
			c.pid = conn.PgConn().PID()
		}
	}
	return nil
}

// Reset closes all connections and ends the statements that run on them.
func (l *Links) Reset() {
	for _, c := range l.all() {
		_ = c.Close() // the statements that run on it fail
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

func (l *Links) all() []*link {
	l.mu.Lock()
	defer l.mu.Unlock()
	links := make([]*link, 0, len(l.open))
	for c := range l.open {
		links = append(links, c)
	}
	return links
}

// Run closes half-open connections until ctx ends.
func (l *Links) Run(ctx context.Context) {
	ticker := time.NewTicker(l.Patience / 4)
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
	var waiting []*link
	var pids []int64
	for _, c := range l.all() {
		if c.stalled(now, 2*l.Patience) {
			l.Logger.Warn("the database does not answer while a connection is made; it is closed")
			_ = c.Close()
			continue
		}
		if pid := c.overdue(now, l.Patience); pid != 0 {
			waiting, pids = append(waiting, c), append(pids, int64(pid))
		}
	}
	if len(waiting) == 0 {
		l.confirm(false)
		return
	}
	busy, unconfirmed, err := l.busy(ctx, pids)
	if err != nil {
		return // the server cannot be asked, and new connections would not help either
	}
	l.confirm(unconfirmed)
	for _, c := range waiting {
		if since, dead := c.judge(now, busy[int64(c.pid)]); dead {
			l.Logger.Warn("a connection to the database does not answer although the server does not work for it; it is closed", "silent",
				time.Since(since).Round(time.Millisecond))
			_ = c.Close()
			// Connections that have been silent since then are probably lost as well. Closing them costs only the time to open
			// others.
			for _, other := range l.all() {
				if other.idleSince(since) {
					_ = other.Close()
				}
			}
		}
	}
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
	if err != nil {
		return nil, false, fmt.Errorf("look at sessions: %w", err)
	}
	busy = map[int64]bool{}
	var pid int64
	var waits bool
	if _, err := pgx.ForEachRow(rows, []any{&pid, &waits}, func() error {
		busy[pid], unconfirmed = true, unconfirmed || waits
		return nil
	}); err != nil {
		return nil, false, fmt.Errorf("look at sessions: %w", err)
	}
	return busy, unconfirmed, nil
}
