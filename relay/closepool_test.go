package relay

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// A statement that was cut off on a lost connection does not keep a pool from being closed.
func TestPoolEndsWithoutALostConnection(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	firewall, through := pgtest.NewFirewall(t, s.URL)
	pool, err := pgxpool.New(t.Context(), through)
	if err != nil {
		t.Fatal(err)
	}
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
	closeSoon(pool)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("closed after %v", took)
	}
}
