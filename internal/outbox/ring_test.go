package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// listening is a running listener, on a table with the doorbell's trigger.
type listening struct {
	*Listener
	*pgtest.Schema
	pid    atomic.Uint32
	rung   atomic.Int64
	missed atomic.Int64
	cutOff atomic.Bool // no connection can be made
}

func newListening(t *testing.T) *listening {
	t.Helper()
	l := &listening{Schema: pgtest.New(t)}
	table := sql.Table{Schema: l.Name, Name: "outbox_messages"}
	l.Exec(t, sql.Schema(table)+sql.Doorbell(table, l.Name), pgx.QueryExecModeSimpleProtocol)
	config, err := pgx.ParseConfig(l.URL)
	if err != nil {
		t.Fatal(err)
	}
	l.Listener = &Listener{
		Channel: l.Name, Table: table.Quoted(), Logger: slog.New(slog.DiscardHandler), Pulse: time.Minute,
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			if l.cutOff.Load() {
				return nil, errors.New("cut off")
			}
			conn, err := pgx.ConnectConfig(ctx, config.Copy())
			if err == nil {
				l.pid.Store(conn.PgConn().PID())
			}
			return conn, err
		},
		Wake: func(payload string) {
			if payload == Missed || payload == Switched {
				l.missed.Add(1)
			} else {
				l.rung.Add(1)
			}
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, "listening", l.Up)
	return l
}

// held reports whether the trigger sees that a relay wants it to ring.
func (l *listening) held(t *testing.T) bool {
	t.Helper()
	return pgtest.Value[bool](t, l.Schema, `select exists (select from pg_locks
		where locktype = 'advisory' and mode = 'ShareLock' and classid = `+sql.DoorbellClass+
		` and objid = 'outbox_messages'::regclass)`)
}

func (l *listening) insert(t *testing.T) {
	t.Helper()
	l.Exec(t, "insert into outbox_messages (topic, payload) values ('t', '{}')")
}

// Writers ring from when the relay wants it until it no longer does. The listener relies on it only if the trigger is
// known to exist.
func TestListenerArms(t *testing.T) {
	t.Parallel()
	l := newListening(t)
	l.Arm(true)
	eventually(t, "armed", func() bool { return l.held(t) })
	if !l.Armed().IsZero() {
		t.Error("nobody has said that there is a trigger, and it is relied on")
	}
	l.Trigger.Store(true)
	// the server knows of the lock before the listener does
	eventually(t, "relied on", func() bool { return !l.Armed().IsZero() })
	since := l.Armed()
	if time.Since(since) < 0 {
		t.Errorf("armed since %v", since)
	}
	l.insert(t)
	eventually(t, "rung", func() bool { return l.rung.Load() == 1 })
	if l.Trigger.Store(false); !l.Armed().IsZero() {
		t.Error("the trigger is gone, and it is relied on")
	}
	l.Trigger.Store(true)
	l.Arm(false)
	eventually(t, "disarmed", func() bool { return !l.held(t) })
	if !l.Armed().IsZero() {
		t.Error("it is relied on")
	}
	l.Arm(true)
	eventually(t, "armed again", func() bool { return l.Armed().After(since) })
}

// When the listener's connection ends, rings are no longer relied on, and the relay learns of that at once.
func TestListenerThatEndsIsNotReliedOn(t *testing.T) {
	t.Parallel()
	l := newListening(t)
	l.Trigger.Store(true)
	l.Arm(true)
	for range 3 {
		eventually(t, "armed", func() bool { return !l.Armed().IsZero() })
		since, missed := l.Armed(), l.missed.Load()
		l.cutOff.Store(true)
		l.Exec(t, "select pg_terminate_backend($1)", int(l.pid.Load()))
		eventually(t, "the relay is woken", func() bool { return l.missed.Load() > missed })
		if !l.Armed().IsZero() {
			t.Error("it is relied on")
		}
		ended := time.Now()
		l.cutOff.Store(false)
		eventually(t, "armed again", func() bool { return l.Armed().After(since) })
		if l.Armed().Before(ended) {
			t.Error("what was before counts")
		}
	}
}

// If there are many rings, writers need not ring even if the relay wants it. They ring again after a pause.
func TestListenerRestsFromManyRings(t *testing.T) {
	t.Parallel()
	l := newListening(t)
	l.Trigger.Store(true)
	l.Arm(true)
	eventually(t, "armed", func() bool { return !l.Armed().IsZero() })
	for n := range 3 {
		before, since := l.rung.Load(), l.Armed()
		for l.Armed().Equal(since) {
			l.Exec(t, "do $$ begin for i in 1..300 loop perform pg_notify('"+l.Name+"', ''); commit; end loop; end $$")
		}
		if came := l.rung.Load() - before; came < 100 {
			t.Errorf("spell %d: disarmed after %d rings", n, came)
		}
		eventually(t, "armed again", func() bool { return l.Armed().After(since) && l.held(t) })
	}
}
