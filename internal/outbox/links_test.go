package outbox

import (
	"context"
	"log/slog"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// acquire returns connections of the pool, which are released at the end of the test.
func acquire(t *testing.T, pool *pgxpool.Pool, n int) []*pgxpool.Conn {
	t.Helper()
	conns := make([]*pgxpool.Conn, n)
	for i := range conns {
		// A login may take longer than the patience on a busy machine.
		eventually(t, "a connection", func() bool {
			var err error
			conns[i], err = pool.Acquire(t.Context())
			return err == nil
		})
		t.Cleanup(conns[i].Release)
	}
	return conns
}

// linked makes a pool whose connections are watched.
func linked(t *testing.T, address string, patience time.Duration) (*Links, *pgxpool.Pool) {
	t.Helper()
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	links := &Links{
		Patience: patience, Logger: slog.New(slog.DiscardHandler),
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, address) },
	}
	config.ConnConfig.DialFunc, config.AfterConnect = links.Dial, links.Note
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { links.ClosePool(pool) })
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { links.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return links, pool
}

// A statement that takes many times the patience is left alone, whether the server computes, sleeps or waits for a lock. A
// connection that is idle for a long time is left alone too.
func TestLinksLeaveSlowStatementsAlone(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	_, pool := linked(t, s.URL, 100*time.Millisecond)
	s.Exec(t, "create table locked ()")
	conns := acquire(t, pool, 4)
	tx, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock := sync.OnceFunc(func() { _ = tx.Rollback(context.Background()) })
	defer unlock()
	if _, err := tx.Exec(t.Context(), "lock table locked"); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(2*time.Second, unlock)
	var statements sync.WaitGroup
	for i, statement := range []string{"select pg_sleep(2)", "select from locked", "select count(*) from generate_series(1, 5000000)"} {
		statements.Go(func() {
			if _, err := conns[i].Exec(t.Context(), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		})
	}
	kept := conns[3]
	statements.Wait()
	if err := kept.Ping(t.Context()); err != nil {
		t.Errorf("the connection without a statement: %v", err)
	}
}

// A statement whose connection is lost fails soon, however the connection was lost, and the next statement finds a connection
// that works.
func TestLinksFindLostConnections(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]struct{ toServer, fromServer bool }{
		"both ways": {true, true}, "to the server": {true, false},
		"from the server": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			firewall, through := pgtest.NewFirewall(t, s.URL)
			_, pool := linked(t, through, 100*time.Millisecond)
			conns := acquire(t, pool, 4)
			for _, conn := range conns[1:] {
				conn.Release()
			}
			if n := firewall.Forget(math.MaxInt, lost.toServer, lost.fromServer); n < 4 {
				t.Fatalf("%d connections", n)
			}
			_, err := conns[0].Exec(t.Context(), "select pg_sleep(0.5)")
			conns[0].Release()
			if err == nil {
				t.Error("the statement has succeeded")
			}
			eventually(t, "the next statement succeeds", func() bool { return pool.Ping(t.Context()) == nil })
		})
	}
}

// A server that accepts connections and sends nothing does not block callers forever.
func TestLinksEndLoginsThatStall(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, pool := linked(t, "postgres://nobody@"+listener.Addr().String()+"/none?sslmode=disable", 100*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := pool.Ping(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("ended with %v", err)
	}
}

// A statement that was cut off on a lost connection does not keep a pool from being closed.
func TestLinksCloseAPool(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	firewall, through := pgtest.NewFirewall(t, s.URL)
	links, pool := linked(t, through, time.Hour)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	firewall.Forget(math.MaxInt, true, true)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := conn.Exec(ctx, "select 1"); err == nil {
		t.Error("the statement has succeeded")
	}
	conn.Release()
	began := time.Now()
	links.ClosePool(pool)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("closed after %v", took)
	}
}
