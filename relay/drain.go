package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// A LeftError reports that a drain ended with rows left.
type LeftError struct {
	Rows    int64  // counted up to 10001, which means that many or more
	Reasons string // why rows are left, with counts

	// Unseen is why the rows left could not be counted: the database could not be reached. Otherwise it is nil.
	Unseen error
}

func (e *LeftError) Unwrap() error { return e.Unseen }

func (e *LeftError) Error() string {
	if e.Unseen != nil {
		return fmt.Sprintf("stopped before all was relayed; rows left: unknown, "+
			"as the database could not be reached: %v", e.Unseen)
	}
	rows := fmt.Sprint(e.Rows)
	if e.Rows >= outbox.CountCap {
		rows = "more than 10000"
	}
	return fmt.Sprintf("stopped before all was relayed; rows left: %s (%s)", rows, e.Reasons)
}

// Drain relays until the rows that are pending and due now are relayed or failed, by any replica. The error is a
// [*LeftError] if ctx ends first, also while the database is away, or if only rows are left whose destination is paused
// or that no destination takes.
func (r *Relay) Drain(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // the relay runs until the reasons have been read
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(running) }() // the rows left are counted in the table instead
	err := r.drained(ctx)
	stop()
	<-done
	return err
}

// drained waits until no row is left that may be published.
func (r *Relay) drained(ctx context.Context) error {
	ends := make([]outbox.End, len(r.config.Destinations))
	for wait := 10 * time.Millisecond; ; {
		started := time.Now()
		if left, err := r.left(ctx, ends); err == nil && left.open == 0 {
			return r.leftError(left)
		}
		// A count that is slow, for want of an index, must not take the database's time from the rows.
		wait = max(min(2*wait, 200*time.Millisecond), engine.RestShare*time.Since(started))
		select {
		case <-ctx.Done():
			return r.leftAtEnd(ctx, ends)
		case <-time.After(wait):
		}
	}
}

// rowsLeft are the rows that are left of those that were pending and due when a drain began, without those of
// best-effort destinations.
type rowsLeft struct {
	open  int64                  // may be relayed
	waits map[engine.Cause]int64 // may not, by reason
}

// causeUntaken is the reason of rows that no destination takes.
const causeUntaken engine.Cause = "no destination"

// left counts the rows left. The first call notes where they end, so that rows which are inserted while the drain goes
// on do not keep it from ending. ends has a place for each destination.
func (r *Relay) left(ctx context.Context, ends []outbox.End) (left rowsLeft, err error) {
	table, err := r.state()
	if table == nil {
		return left, err
	}
	left.waits = map[engine.Cause]int64{}
	for i, v := range r.plan.Views {
		if v.Optional {
			continue
		}
		view, failure := table.For(v)
		n := int64(0)
		if failure == nil {
			n, failure = view.Left(ctx, &ends[i])
		}
		if err = errors.Join(err, failure); !r.config.Destinations[i].paused.Load() {
			left.open += n
		} else if n > 0 {
			left.waits[engine.CausePaused] += n
		}
	}
	if err == nil && left.open == 0 && !takeAll(r.config.Destinations) {
		var report operate.Report
		report, err = r.measureTable(ctx)
		if rest := report.Untaken; rest != nil && rest.Due != nil && *rest.Due > 0 {
			left.waits[causeUntaken] = *rest.Due
		}
	}
	return left, err
}

// leftError returns a [*LeftError] with the reasons why rows are left, or nil if none are. The relay must still run.
func (r *Relay) leftError(left rowsLeft) error {
	rows := left.open
	for _, n := range left.waits {
		rows += n
	}
	if rows == 0 {
		return nil
	}
	return &LeftError{Rows: min(rows, outbox.CountCap), Reasons: r.reasons(left.waits)}
}

// leftTimeout bounds the count of what is left at the end. The caller's time is over by then.
const leftTimeout = time.Second

// leftAtEnd counts the rows left when the time is over.
func (r *Relay) leftAtEnd(ctx context.Context, ends []outbox.End) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leftTimeout)
	defer cancel()
	left, err := r.left(ctx, ends)
	switch {
	case errors.Is(err, errStarting), noServer(err):
		return &LeftError{Unseen: err}
	case err != nil:
		return fmt.Errorf("not everything could be drained: %w", err)
	}
	return r.leftError(left)
}

// noServer reports whether an error says that the database could not be reached. A server that refuses the user, the
// password or the database's name was reached, and waiting would not help.
func noServer(err error) bool {
	const user, database = "28", "3D" // classes of SQLSTATE
	e, answered := errors.AsType[*pgconn.PgError](err)
	if answered && (strings.HasPrefix(e.Code, user) || strings.HasPrefix(e.Code, database)) {
		return false
	}
	return outbox.Unreachable(err) && !owner.Answered(err)
}

// reasons returns why rows may be left, with counts by reason. counts are the rows that may not be relayed.
func (r *Relay) reasons(counts map[engine.Cause]int64) string {
	if states, _ := r.owner.States(); !holds(states) && len(counts) == 0 {
		return "other replicas relay"
	}
	s := allOf(r.config.Destinations)
	for c, n := range s.Held {
		counts[c] += n
	}
	var reasons []string
	for _, c := range slices.Sorted(maps.Keys(counts)) {
		if counts[c] > 0 {
			reasons = append(reasons, fmt.Sprintf("%s %d", c, min(counts[c], outbox.CountCap)))
		}
	}
	if n := s.InFlight - s.Stuck; n > 0 { // the stuck rows are counted under mark
		reasons = append(reasons, fmt.Sprintf("in flight %d", n))
	}
	if len(reasons) == 0 {
		return "not reached yet"
	}
	return strings.Join(reasons, ", ") + "; keys that wait are counted once"
}
