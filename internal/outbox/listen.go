package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Listener turns notifications into hints that there are new rows. Nothing depends on it: without it rows are found at
// the next poll. Its exported fields are its configuration.
type Listener struct {
	// Connect opens a connection that does not go through a transaction pooler, which would take LISTEN and bring
	// nothing: that is examined where the same connections own shards.
	Connect func(context.Context) (*pgx.Conn, error)
	Channel string
	Table   string               // the table as statements write it, for the doorbell trigger
	Wake    func(payload string) // called for each notification, and with [Missed]; must not block
	Logger  *slog.Logger

	// Pulse is how often the server has to answer, and how long an answer may take.
	Pulse time.Duration

	// Trigger says that the table has the doorbell's trigger, according to the catalogue.
	Trigger atomic.Bool

	up     atomic.Bool
	wanted atomic.Bool               // the relay wants writers to ring
	since  atomic.Pointer[time.Time] // when every writer began to ring: the session has the doorbell's lock
}

const (
	listenAnswer = 5 * time.Second // how long it may take to begin, or to take the doorbell's lock
	listenRetry  = 30 * time.Second
	// listenLook is how often a listener that hears nothing looks at what the relay wants, and tries again to take the
	// lock, which a writer holds for a moment. Each look costs the idle relay up to 0.1 ms.
	listenLook = time.Second
)

// MostRings is how often writers may ring per second. A notification serialises the commits of the whole cluster,
// including their sync to disk.
const MostRings = 400

const (
	ringsAtOnce = MostRings / 4 // may come in a quarter of a second
	quietAfter  = time.Second   // too many; without the bell a relay finds new rows at its next poll
)

// Payloads of notifications. With any other, new rows may have been inserted.
const (
	Missed   = "outbox-relay:missed"   // a [Listener] says that a notification may have been missed
	Switched = "outbox-relay:switched" // a [Listener] says that writers ring from now on, or no longer
	Operated = "outbox-relay:operated" // rows were changed by hand: failed rows may have been retried or discarded
)

// Up reports whether notifications arrive at present.
func (l *Listener) Up() bool { return l.up.Load() }

// Arm makes the doorbell's trigger let each writer ring, or none. When writers start to ring, the relay is woken once
// more, for a row that was inserted in between. If more than [MostRings] of them ring per second, they need not ring
// for some time: commits that notify wait for one another.
func (l *Listener) Arm(wanted bool) { l.wanted.Store(wanted) }

// Armed returns the time since when every writer that inserts rings, so that the listener is notified when the row is
// committed. It is zero if writers need not ring, or if that is unknown.
func (l *Listener) Armed() time.Time {
	if since := l.since.Load(); since != nil && l.Trigger.Load() {
		return *since
	}
	return time.Time{}
}

// Run listens until ctx ends, and reconnects as often as necessary.
func (l *Listener) Run(ctx context.Context) {
	var last string
	for n := 0; ctx.Err() == nil; n++ {
		started := time.Now()
		err := l.session(ctx)
		l.since.Store(nil)
		if l.up.Swap(false) {
			last = ""      // the previous problem is over
			l.Wake(Missed) // for a relay that sleeps long because it relies on being woken
		}
		if time.Since(started) > l.Pulse {
			n = 0
		}
		if text := errtext.Line(err); text != last && ctx.Err() == nil {
			l.Logger.Warn("cannot listen, polling continues", "error", err)
			last = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(100*time.Millisecond<<min(n, 10), listenRetry)):
		}
	}
}

func (l *Listener) session(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, listenAnswer)
	defer cancel()
	conn, err := l.Connect(limited)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // the session is over either way
	}()
	if _, err := conn.Exec(limited, "listen "+sql.Quote(l.Channel)); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := l.pulse(limited, conn, false); err != nil {
		return err
	}
	l.Logger.Info("listening", "channel", l.Channel)
	l.up.Store(true)
	l.Wake(Missed)             // for earlier notifications
	var quiet, spell time.Time // writers need not ring before quiet; rung is how often they did since spell
	rung := 0
	for answered := time.Now(); ; {
		arms := l.wanted.Load() && !time.Now().Before(quiet)
		if arms != (l.since.Load() != nil) || time.Since(answered) >= l.Pulse {
			if err := l.pulse(ctx, conn, arms); err != nil {
				return err
			}
			answered = time.Now()
		}
		limited, cancel := context.WithTimeout(ctx, min(listenLook, l.Pulse))
		notification, err := conn.WaitForNotification(limited)
		cancel()
		switch {
		case err != nil && conn.IsClosed():
			return fmt.Errorf("wait for notification: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // the time is over
			continue
		}
		if now := time.Now(); now.Sub(spell) > time.Second/4 {
			spell, rung = now, 0
		}
		if rung++; rung > ringsAtOnce {
			quiet = time.Now().Add(quietAfter)
		}
		l.Wake(notification.Payload)
	}
}

// errQueue reports that the doorbell's trigger does not ring, because a full queue of notifications makes commits fail.
var errQueue = errors.New("the server's queue of notifications is half full or more: a session that listens has a " +
	"transaction open, so that nothing is removed from the queue; find it in pg_stat_activity by query_start, and " +
	"end it")

// pulse makes the server answer, and takes or releases the lock by which the doorbell's trigger knows that each writer
// must ring.
func (l *Listener) pulse(ctx context.Context, conn *pgx.Conn, arms bool) error {
	ctx, cancel := context.WithTimeout(ctx, min(l.Pulse, listenAnswer))
	defer cancel()
	before := l.since.Load()
	if !arms {
		l.since.Store(nil)
	}
	var room, held bool
	statement := sql.Text("doorbell_pulse.sql", map[string]string{"class": sql.DoorbellClass})
	err := conn.QueryRow(ctx, statement, pgx.QueryExecModeExec, arms, l.Table).Scan(&room, &held)
	if err != nil {
		return fmt.Errorf("no answer on the connection for notifications: %w", err)
	} else if !room {
		return errQueue
	}
	if held && before == nil {
		l.since.Store(new(time.Now()))
	}
	if held != (before != nil) {
		l.Wake(Switched) // the relay's pauses are different now
	}
	return nil
}
