package outbox

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// doorbellLimit bounds a statement about the doorbell's lock.
const doorbellLimit = 5 * time.Second

// rings is how often writers ring. A notification serialises the commits of the whole cluster, including their sync to
// disk. The relay knows what a commit takes and how many rows it relays, but not how many other replicas relay.
type rings struct {
	left  float64   // notifications that may still come at once
	at    time.Time // the time at which left was computed
	pause time.Duration
	quiet time.Time // writers need not ring before this time
}

const (
	ringsAtOnce  = 250 * time.Millisecond // the rings that may come in this time may come at once
	fewRings     = 10                     // may always come at once
	quietAtFirst = 250 * time.Millisecond
	quietAtMost  = 2 * time.Second
	quietForLock = 100 * time.Millisecond // while another session holds the doorbell's lock
)

// arms reports whether each writer is to ring. The caller holds mu.
func (l *Listener) arms(now time.Time) bool { return l.most > 0 && !now.Before(l.rings.quiet) }

// atOnce returns how many rings may come at once. The caller holds mu.
func (l *Listener) atOnce() float64 { return max(l.most*ringsAtOnce.Seconds(), fewRings) }

// ring records a notification. If there are too many, writers need not ring for a while. The pause is longer the sooner
// there are too many again.
func (l *Listener) ring(payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() || l.most == 0 || payload != "" {
		return
	}
	now, r := time.Now(), &l.rings
	r.left = min(r.left+l.most*now.Sub(r.at).Seconds(), l.atOnce()) - 1
	if r.at = now; r.left >= 0 {
		return
	}
	if now.Sub(l.since) >= time.Second {
		r.pause = 0
	}
	r.pause = min(max(2*r.pause, quietAtFirst), quietAtMost)
	l.since, r.quiet = time.Time{}, now.Add(r.pause)
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
	ctx, cancel := context.WithTimeout(ctx, min(doorbellLimit, cmp.Or(l.Pulse, doorbellLimit)))
	defer cancel()
	if !arms {
		if _, err := conn.Exec(ctx, sql.Text("doorbell_wake.sql", nil), pgx.QueryExecModeExec); err != nil {
			return fmt.Errorf("release the doorbell's lock: %w", err)
		}
		*held = false
	} else if err := conn.QueryRow(ctx, sql.Text("doorbell_sleep.sql", map[string]string{"class": sql.DoorbellClass}), pgx.QueryExecModeExec,
		l.Table).Scan(held); err != nil {
		return fmt.Errorf("take the doorbell's lock: %w", err)
	}
	now := time.Now()
	l.mu.Lock()
	switch {
	case *held:
		l.since, l.rings.left, l.rings.at = now, l.atOnce(), now
	case arms: // a writer holds it for a moment and will not notify
		l.rings.quiet = now.Add(quietForLock)
	}
	l.mu.Unlock()
	l.Wake(Switched) // the relay's pauses are different now
	return nil
}
