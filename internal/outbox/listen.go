package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

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

	mu        sync.Mutex
	up        bool
	wanted    bool               // the relay wants writers to ring
	since     time.Time          // when every writer began to ring; zero if none needs to
	interrupt context.CancelFunc // ends the present wait, or the last one

	// The rest is of the goroutine that runs.

	held  bool      // the session has the doorbell's lock, which makes each writer ring
	quiet time.Time // writers need not ring before this time
	spell time.Time // when a quarter of a second began, in which
	rung  int       // so many notifications came
}

const (
	listenAnswer = 5 * time.Second // how long it may take to begin, or to take the doorbell's lock
	listenRetry  = 30 * time.Second
)

// MostRings is how often writers may ring per second. A notification serialises the commits of the whole cluster,
// including their sync to disk.
const MostRings = 400

const (
	ringsAtOnce = MostRings / 4 // may come in a quarter of a second
	quietAfter  = time.Second   // too many; without the bell a relay finds new rows at its next poll
	// The lock is tried again after quietForLock, since a writer holds it for a moment.
	quietForLock = 100 * time.Millisecond
)

// Payloads of notifications. With any other, new rows may have been inserted.
const (
	Missed   = "outbox-relay:missed"   // a [Listener] says that a notification may have been missed
	Switched = "outbox-relay:switched" // a [Listener] says that writers ring from now on, or no longer
	Operated = "outbox-relay:operated" // rows were changed by hand: failed rows may have been retried or discarded
)

// Up reports whether notifications arrive at present.
func (l *Listener) Up() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

// Arm makes the doorbell's trigger let each writer ring, or none. When writers start to ring, the relay is woken once
// more, for a row that was inserted in between. If more than [MostRings] of them ring per second, they need not ring
// for some time: commits that notify wait for one another.
func (l *Listener) Arm(wanted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted != wanted && l.interrupt != nil {
		l.interrupt()
	}
	l.wanted = wanted
}

// Armed returns the time since when every writer that inserts rings, so that the listener is notified when the row is
// committed. It is zero if writers need not ring, or if that is unknown.
func (l *Listener) Armed() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up || !l.Trigger.Load() {
		return time.Time{}
	}
	return l.since
}

// Run listens until ctx ends, and reconnects as often as necessary.
func (l *Listener) Run(ctx context.Context) {
	var last string
	for n := 0; ctx.Err() == nil; n++ {
		started := time.Now()
		err := l.session(ctx)
		if l.Up() {
			last = "" // the previous problem is over
			l.set(false)
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

func (l *Listener) set(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if up {
		l.Logger.Info("listening", "channel", l.Channel)
	}
	l.up, l.held, l.since = up, false, time.Time{}
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
	l.set(true)
	l.Wake(Missed) // for earlier notifications
	for answered := time.Now(); ; {
		l.mu.Lock()
		wanted, limit := l.wanted, l.Pulse
		l.mu.Unlock()
		arms := wanted && !time.Now().Before(l.quiet)
		if arms != l.held || time.Since(answered) >= l.Pulse {
			if err := l.pulse(ctx, conn, arms); err != nil {
				return err
			}
			answered = time.Now()
		}
		if wanted && !l.held {
			limit = min(limit, time.Until(l.quiet))
		}
		notification, err := l.wait(ctx, conn, wanted, limit)
		if err != nil {
			return err
		}
		if notification != nil {
			l.ring(notification.Payload)
			l.Wake(notification.Payload)
		}
	}
}

// wait waits for a notification, up to a limit. It returns early when the relay changes what it wants.
func (l *Listener) wait(
	ctx context.Context, conn *pgx.Conn, wanted bool, limit time.Duration,
) (*pgconn.Notification, error) {
	waiting, interrupt := context.WithTimeout(ctx, limit)
	defer interrupt()
	l.mu.Lock()
	if l.interrupt = interrupt; l.wanted != wanted {
		interrupt()
	}
	l.mu.Unlock()
	notification, err := conn.WaitForNotification(waiting)
	if err != nil && conn.IsClosed() {
		return nil, fmt.Errorf("wait for notification: %w", err)
	} else if err != nil { // the time is over, or the wait was interrupted
		return nil, ctx.Err()
	}
	return notification, nil
}

// ring records a notification. If there are too many, writers need not ring for a while.
func (l *Listener) ring(payload string) {
	if !l.held || payload != "" {
		return
	}
	now := time.Now()
	if now.Sub(l.spell) > time.Second/4 {
		l.spell, l.rung = now, 0
	}
	if l.rung++; l.rung > ringsAtOnce {
		l.quiet = now.Add(quietAfter)
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
	l.arms(arms && l.held)
	var room, held bool
	statement := sql.Text("doorbell_pulse.sql", map[string]string{"class": sql.DoorbellClass})
	err := conn.QueryRow(ctx, statement, pgx.QueryExecModeExec, arms, l.Table).Scan(&room, &held)
	if err != nil {
		return fmt.Errorf("no answer on the connection for notifications: %w", err)
	} else if !room {
		return errQueue
	}
	changed := l.held != held
	l.held = held
	if l.arms(held); arms && !held {
		l.quiet = time.Now().Add(quietForLock)
	}
	if changed {
		l.Wake(Switched) // the relay's pauses are different now
	}
	return nil
}

// arms notes whether every writer rings from now on.
func (l *Listener) arms(each bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !each {
		l.since = time.Time{}
	} else if l.since.IsZero() {
		l.since = time.Now()
	}
}

// Notify wakes the relays that listen on a channel, over a connection of the pool.
func Notify(ctx context.Context, pool *pgxpool.Pool, channel string) error {
	if _, err := pool.Exec(ctx, sql.Text("notify.sql", nil), pgx.QueryExecModeExec, channel, ""); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}
