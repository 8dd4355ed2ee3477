package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// A LeftError reports that rows were left: at the end of a drain those that are not relayed, at the end of a run those
// that were published, or may have been, and could not be settled. The latter are published again with the same ids.
type LeftError struct {
	Rows    int64  // counted up to 10001, which means that many or more; negative if the database could not be asked
	Reasons string // why rows are left, with counts
}

func (e *LeftError) Error() string {
	rows := fmt.Sprint(e.Rows)
	if e.Rows >= outbox.CountCap {
		rows = "more than 10000"
	} else if e.Rows < 0 {
		rows = "unknown"
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

// leftTimeout bounds the count of what is left at the end. The caller's time is over by then.
const leftTimeout = time.Second

// drained waits until no row is left that may be published.
func (r *Relay) drained(ctx context.Context) error {
	ends := make([]outbox.End, len(r.config.Destinations))
	for {
		started := time.Now()
		if open, waits, err := r.left(ctx, ends); err == nil && open == 0 {
			return r.leftError(open, waits, nil)
		}
		// A count that is slow, for want of an index, must not take the database's time from the rows.
		wait := max(100*time.Millisecond, engine.RestShare*time.Since(started))
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leftTimeout)
			defer cancel()
			return r.leftError(r.left(ctx, ends))
		case <-time.After(wait):
		}
	}
}

// causeUntaken is the reason of rows that no destination takes.
const causeUntaken engine.Cause = "no destination"

// left counts the rows that are left of those that were pending and due when a drain began, without those of
// best-effort destinations: those that may be relayed, and by reason those that may not. The first call notes where
// they end, so that rows which are inserted while the drain goes on do not keep it from ending. ends has a place for
// each destination.
func (r *Relay) left(ctx context.Context, ends []outbox.End) (open int64, waits map[engine.Cause]int64, err error) {
	table, err := r.state()
	if table == nil {
		return 0, nil, err
	}
	waits = map[engine.Cause]int64{}
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
			open += n
		} else if n > 0 {
			waits[engine.CausePaused] += n
		}
	}
	if err == nil && open == 0 && !takeAll(r.config.Destinations) {
		var report operate.Report
		report, err = r.measureTable(ctx)
		if rest := report.Untaken; rest != nil && rest.Due != nil {
			waits[causeUntaken] = *rest.Due
		}
	}
	return open, waits, err
}

// leftError returns the error of a drain that ends with what [Relay.left] has counted, nil if no row is left. The relay
// must still run.
func (r *Relay) leftError(open int64, waits map[engine.Cause]int64, err error) error {
	switch {
	case unreached(err):
		return &LeftError{-1, "the database could not be reached: " + errtext.Line(err)}
	case err != nil:
		return fmt.Errorf("not everything could be drained: %w", err)
	}
	rows := open
	for _, n := range waits {
		rows += n
	}
	if rows == 0 {
		return nil
	}
	return &LeftError{min(rows, outbox.CountCap), r.reasons(waits)}
}

// reasons returns why rows may be left, with counts by reason. counts are the rows that may not be relayed.
func (r *Relay) reasons(counts map[engine.Cause]int64) string {
	s := allOf(r.config.Destinations)
	for c, n := range s.Held {
		counts[c] += n
	}
	counts["in flight"] = int64(s.InFlight - s.Stuck) // the stuck rows are counted under mark
	var reasons []string
	for _, c := range slices.Sorted(maps.Keys(counts)) {
		if counts[c] > 0 {
			reasons = append(reasons, fmt.Sprintf("%s %d", c, min(counts[c], outbox.CountCap)))
		}
	}
	if len(reasons) > 0 {
		return strings.Join(reasons, ", ") + "; keys that wait are counted once"
	} else if r.owned() > 0 {
		return "not reached yet"
	}
	states, _ := r.owner.States()
	ownership := r.checkOwnership(nil, states)
	return cmp.Or(errtext.Line(ownership.Err), ownership.Note, "no shard is acquired yet")
}
