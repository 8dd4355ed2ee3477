package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// doorbellLimit bounds a statement about the doorbell's lock.
const doorbellLimit = 5 * time.Second

// MostRings is how often writers may ring per second. A notification serialises the commits of the whole cluster,
// including their sync to disk.
const MostRings = 400

const (
	ringsAtOnce  = MostRings / 4          // may come in a quarter of a second
	quietAfter   = time.Second            // too many; without the bell a relay finds new rows at its next poll
	quietForLock = 100 * time.Millisecond // while another session holds the doorbell's lock
)

// arms reports whether each writer is to ring. The caller holds mu.
func (l *Listener) arms(now time.Time) bool { return l.wanted && !now.Before(l.quiet) }

// ring records a notification. If there are too many, writers need not ring for a while.
func (l *Listener) ring(payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() || !l.wanted || payload != "" {
		return
	}
	now := time.Now()
	if now.Sub(l.spell) > time.Second/4 {
		l.spell, l.rung = now, 0
	}
	if l.rung++; l.rung > ringsAtOnce {
		l.since, l.quiet = time.Time{}, now.Add(quietAfter)
	}
}

// doorbell takes or releases the lock by which the doorbell's trigger knows that each writer must ring.
func (l *Listener) doorbell(ctx context.Context, conn *pgx.Conn, held *bool) error {
	l.mu.Lock()
	arms := l.arms(time.Now())
	if !arms {
		l.since = time.Time{}
	}
	l.mu.Unlock()
	if arms == *held {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(doorbellLimit, l.Pulse))
	defer cancel()
	var err error
	if arms {
		statement := sql.Text("doorbell_sleep.sql", map[string]string{"class": sql.DoorbellClass})
		err = conn.QueryRow(ctx, statement, pgx.QueryExecModeExec, l.Table).Scan(held)
	} else if _, err = conn.Exec(ctx, sql.Text("doorbell_wake.sql", nil), pgx.QueryExecModeExec); err == nil {
		*held = false
	}
	if err != nil {
		return fmt.Errorf("take or release the doorbell's lock: %w", err)
	}
	now := time.Now()
	l.mu.Lock()
	switch {
	case *held:
		l.since, l.rung = now, 0
	case arms: // a writer holds it for a moment and will not notify
		l.quiet = now.Add(quietForLock)
	}
	l.mu.Unlock()
	l.Wake(Switched) // the relay's pauses are different now
	return nil
}
