package owner

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// start runs a replica until the test or the returned function ends it.
func start(t *testing.T, url, table string, ttl time.Duration, network *publishertest.Network) (*Owner, func()) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if network != nil {
		config.DialFunc = network.Dial
	}
	o := &Owner{Table: table, TTL: ttl, Logger: slog.New(slog.DiscardHandler),
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); o.Run(ctx) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return o, stop
}

// await waits until the state is as wanted.
func await(t *testing.T, o *Owner, what string, want func(State) bool) State {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		state, changed := o.State()
		if want(state) {
			return state
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s: still %+v", what, state)
		}
	}
}

func owned(s State) bool { return s.Owned }

func TestOneOwnerAndCleanHandover(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	first, stop := start(t, s.URL, s.Name, 5*time.Second, nil)
	await(t, first, "first owns", owned)
	second, _ := start(t, s.URL, s.Name, 5*time.Second, nil)
	await(t, second, "second sees both", func(s State) bool { return s.Replicas == 2 })
	if state, _ := second.State(); state.Owned || !second.Trusted().IsZero() {
		t.Fatal("two owners at once")
	}
	other, _ := start(t, s.URL, s.Name+"_other", 5*time.Second, nil)
	await(t, other, "another table's owner", owned)
	stop()
	if !first.Trusted().IsZero() {
		t.Error("still trusted after it gave back")
	}
	await(t, second, "second takes over", owned)
}

func TestTerminatedSessionIsReplaced(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	first, _ := start(t, s.URL, s.Name, 5*time.Second, nil)
	term := await(t, first, "owns", owned).Term
	if n := pgtest.Value[int](t, s, `select count(pg_terminate_backend(pid)) from pg_locks
		where locktype = 'advisory' and objid = 0 and classid = ($1::bigint & 4294967295)::oid`, classOf(s.Name)); n != 1 {
		t.Fatalf("%d owners in pg_locks", n)
	}
	if now := await(t, first, "owns again", func(s State) bool { return s.Owned && s.Term > term }); now.Trusted.IsZero() {
		t.Error("not trusted")
	}
}

// An owner that is cut off without a word trusts itself no longer before the server lets another in.
func TestSilentOwnerEndsBeforeItsSuccessorBegins(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	network := publishertest.NewNetwork()
	first, _ := start(t, s.URL, s.Name, 2*time.Second, network)
	await(t, first, "first owns", owned)
	second, _ := start(t, s.URL, s.Name, 2*time.Second, nil)
	await(t, second, "second stands by", func(s State) bool { return s.Replicas == 2 })
	network.Freeze()
	trusted := first.Trusted()
	await(t, second, "second takes over", owned)
	if taken := time.Now(); !trusted.Before(taken) {
		t.Errorf("the old owner trusted itself %v longer than the server did", trusted.Sub(taken))
	}
	network.Restore()
	await(t, first, "first stands by", func(s State) bool { return !s.Owned && s.Err == nil && s.Replicas == 2 })
}

func TestUnreachableDatabaseIsReported(t *testing.T) {
	t.Parallel()
	network := publishertest.NewNetwork()
	network.Cut()
	o, _ := start(t, "postgres://nobody@127.0.0.1:1/none?sslmode=disable", "t", time.Second, network)
	state := await(t, o, "reports", func(s State) bool { return s.Err != nil })
	if _, ok := errors.AsType[net.Error](state.Err); !ok && state.Owned {
		t.Errorf("state %+v", state)
	}
}
