package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Listener turns notifications into hints that there are new rows. Nothing depends on it: without it
// rows are found at the next poll. Its exported fields are its configuration.
type Listener struct {
	Connect func(context.Context) (*pgx.Conn, error) // not through a transaction pooler
	Channel string
	Table   string               // as it stands in a statement, for the doorbell trigger
	Wake    func(payload string) // called for each notification, and with [Missed]; must not block
	Logger  *slog.Logger

	// Check is how often notifications are proved to arrive on a quiet connection; 0 means every minute.
	Check time.Duration
	// Pulse is how often the server has to answer on a quiet connection, and how long an answer may take; 0 means with each Check.
	// It costs the server next to nothing, where a notification reaches all that listen.
	Pulse time.Duration

	mu        sync.Mutex
	up        bool
	asleep    bool               // the relay wants the doorbell to ring
	interrupt context.CancelFunc // ends the present wait
}

const (
	listenCheck   = time.Minute
	listenAnswer  = 5 * time.Second // how long a notification to oneself may take
	listenRetry   = 30 * time.Second
	doorbellLimit = 5 * time.Second
)

// Missed is the payload with which a [Listener] says that a notification may have been missed.
const Missed = "outbox-relay:missed"

var errNotNotified = errors.New("a notification to itself did not arrive: if the connection goes through a transaction pooler, set OUTBOX_DATABASE_DIRECT_URL to the PostgreSQL server itself, or turn LISTEN off with an empty OUTBOX_LISTEN_CHANNEL")

// Up reports whether notifications arrive at present.
func (l *Listener) Up() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

// Sleep tells the doorbell trigger whether the relay sleeps, so that writers notify it only then. The
// relay is woken once more when it sleeps, for a row that came in between.
func (l *Listener) Sleep(asleep bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asleep != asleep {
		l.asleep = asleep
		if l.interrupt != nil {
			l.interrupt()
		}
	}
}

// Run listens until ctx ends, connecting again as often as it takes.
func (l *Listener) Run(ctx context.Context) {
	var last string
	for n := 0; ; n++ {
		started := time.Now()
		err := l.session(ctx)
		if l.Up() {
			last = "" // what was wrong before is over
		}
		l.set(false)
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > listenCheck {
			n = 0
		}
		if text := errtext.Line(err); text != last {
			l.Logger.Warn("not listening, polling goes on", "error", err)
			last = text
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(100*time.Millisecond<<min(n, 10), listenRetry)):
		}
	}
}

func (l *Listener) set(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up != up && up {
		l.Logger.Info("listening", "channel", l.Channel)
	}
	l.up = up
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
	if err := l.prove(ctx, conn); err != nil {
		return err
	}
	l.set(true)
	l.Wake(Missed) // for what was notified before
	held, proved := false, time.Now()
	for {
		if err := l.doorbell(ctx, conn, &held); err != nil {
			return err
		}
		notification, err := l.wait(ctx, conn, held, &proved)
		switch {
		case err != nil:
			return err
		case notification != nil:
			l.Wake(notification.Payload)
		}
	}
}

// wait waits for a notification. It returns early when the relay goes to sleep or wakes up, and proves now
// and then that the connection lives.
func (l *Listener) wait(ctx context.Context, conn *pgx.Conn, held bool, proved *time.Time) (*pgconn.Notification, error) {
	check := cmp.Or(l.Check, listenCheck)
	waiting, interrupt := context.WithTimeout(ctx, min(check, cmp.Or(l.Pulse, check)))
	defer interrupt()
	l.mu.Lock()
	if l.asleep != held {
		l.mu.Unlock()
		return nil, nil
	}
	l.interrupt = interrupt
	l.mu.Unlock()
	notification, err := conn.WaitForNotification(waiting)
	l.mu.Lock()
	l.interrupt = nil
	l.mu.Unlock()
	switch {
	case err == nil:
		return notification, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case conn.IsClosed():
		return nil, fmt.Errorf("wait for notification: %w", err)
	case !errors.Is(waiting.Err(), context.DeadlineExceeded): // interrupted
		return nil, nil
	}
	if l.Pulse > 0 {
		if err := l.pulse(ctx, conn); err != nil {
			return nil, err
		}
	}
	if time.Since(*proved) < check {
		return nil, nil
	}
	*proved = time.Now()
	return nil, l.prove(ctx, conn)
}

// pulse lets the server answer.
func (l *Listener) pulse(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, l.Pulse)
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		return fmt.Errorf("no answer on the connection for notifications: %w", err)
	}
	return nil
}

// prove sends a notification to itself and waits for it.
func (l *Listener) prove(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, listenAnswer)
	defer cancel()
	nonce := "outbox-relay:" + rand.Text()
	if _, err := conn.Exec(ctx, "select pg_notify($1, $2)", pgx.QueryExecModeExec, l.Channel, nonce); err != nil {
		return fmt.Errorf("notify itself: %w", err)
	}
	for {
		notification, err := conn.WaitForNotification(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return errNotNotified
		case err != nil:
			return fmt.Errorf("wait for notification: %w", err)
		case notification.Payload == nonce:
			return nil
		}
		l.Wake(notification.Payload)
	}
}

// doorbell takes or releases the lock by which the doorbell trigger knows that this relay sleeps.
func (l *Listener) doorbell(ctx context.Context, conn *pgx.Conn, held *bool) error {
	l.mu.Lock()
	asleep := l.asleep
	l.mu.Unlock()
	if asleep == *held {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(doorbellLimit, cmp.Or(l.Pulse, doorbellLimit)))
	defer cancel()
	if !asleep {
		if _, err := conn.Exec(ctx, sql.Text("doorbell_wake.sql", nil), pgx.QueryExecModeExec); err != nil {
			return fmt.Errorf("give back the doorbell's lock: %w", err)
		}
		*held = false
		return nil
	}
	if err := conn.QueryRow(ctx, sql.Text("doorbell_sleep.sql", map[string]string{"class": sql.DoorbellClass}), pgx.QueryExecModeExec, l.Table).Scan(held); err != nil {
		return fmt.Errorf("take the doorbell's lock: %w", err)
	}
	if !*held {
		// A writer holds the lock for a moment and will notify nobody: look again, polling meanwhile.
		l.mu.Lock()
		l.asleep = false
		l.mu.Unlock()
	}
	l.Wake(Missed)
	return nil
}

// Notify wakes the relays that listen on a channel, over a connection of the pool.
func Notify(ctx context.Context, pool *pgxpool.Pool, channel string) error {
	if _, err := pool.Exec(ctx, sql.Text("notify.sql", nil), pgx.QueryExecModeExec, channel); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}
