package outbox

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A connection on which nothing arrives any more looks like a quiet one. Only a missing answer shows the difference.
func TestListenerNoticesThatItIsDeaf(t *testing.T) {
	t.Parallel()
	s, network := pgtest.New(t), publishertest.NewNetwork()
	config, err := pgx.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.DialFunc = network.Dial
	heard := make(chan string, 100)
	l := &Listener{
		Channel: s.Name, Table: sql.Table{Schema: s.Name, Name: "outbox_messages"}.Quoted(),
		Pulse: 500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) },
		Wake:    func(payload string) { heard <- payload },
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	defer func() { cancel(); <-done }()

	eventually(t, "listening", l.Up)
	if first := <-heard; first != Missed { // not a notification from a session
		t.Errorf("heard %q", first)
	}
	network.Freeze()
	eventually(t, "deaf", func() bool { return !l.Up() })
	network.Restore()
	eventually(t, "listening again", l.Up)
	s.Exec(t, "select pg_notify($1, 'hello')", s.Name)
	for payload := range heard {
		if payload == "hello" {
			break
		}
	}
}

// Each end of notifications is logged, even if the reason is the same as the last time.
func TestListenerReportsEachEnd(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	config, err := pgx.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var log logtest.Log
	var pid atomic.Uint32
	l := &Listener{
		Channel: s.Name, Table: sql.Table{Schema: s.Name, Name: "outbox_messages"}.Quoted(),
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Pulse: time.Minute,
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			conn, err := pgx.ConnectConfig(ctx, config.Copy())
			if err == nil {
				pid.Store(conn.PgConn().PID())
			}
			return conn, err
		},
		Wake: func(string) {},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for n := 1; n <= 3; n++ {
		eventually(t, "listening", l.Up)
		s.Exec(t, "select pg_terminate_backend($1)", int(pid.Load()))
		eventually(t, "the loss is logged", func() bool { return strings.Count(log.String(), "cannot listen") == n })
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(5 * time.Minute); !condition(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within five minutes", what)
		}
	}
}
