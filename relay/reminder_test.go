package relay

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// An outage is reported again every five minutes for as long as it lasts. The next outage has five minutes of its own.
func TestReminder(t *testing.T) {
	t.Parallel()
	m := reminders{}
	start := time.Now()
	logged := 0
	at := func(d time.Duration, trouble bool) {
		if lasting, due := m.due("part", trouble, start.Add(d)); due {
			logged++
			if lasting != d%time.Hour {
				t.Errorf("after %v: for %v", d, lasting)
			}
		}
	}
	for d := time.Duration(0); d < 16*time.Minute; d += remindLook {
		at(d, true)
	}
	if logged != 3 {
		t.Errorf("logged %d times in 16 minutes", logged)
	}
	at(16*time.Minute, false)
	for d := time.Hour; d < time.Hour+4*time.Minute; d += remindLook {
		at(d, true)
	}
	if logged != 3 {
		t.Error("the next outage was logged too early")
	}
	at(time.Hour+5*time.Minute, true)
	if logged != 4 {
		t.Errorf("logged %d times", logged)
	}
}

// A hold is also reported again, for each destination separately, unless the destination is paused or reported as a
// whole.
func TestReminderOfWhatIsHeld(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := newSim(t)
	d := s.destinations[0]
	held := &engine.Snapshot{Note: `rows of topic "orders" are held (and 2 others): no such topic`}
	d.state.Store(held)
	d.pinged.Store(new(error)) // it is reached
	r := &Relay{
		config:   &Config{Destinations: s.destinations, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		database: &database{},
		owner:    &owner.Owner{},
	}
	m := reminders{}
	start := time.Now()
	until, now := time.Duration(0), time.Duration(0)
	logged := func(next time.Duration) int {
		log.Reset()
		for until += next; now < until; now += remindLook {
			r.remindOf(t.Context(), m, start.Add(now))
		}
		return strings.Count(log.String(), "topics are still held")
	}
	if n := logged(5 * time.Minute); n != 0 {
		t.Errorf("logged %d times before five minutes", n)
	}
	if n := logged(6 * time.Minute); n != 2 || !strings.Contains(log.String(), "orders") ||
		!strings.Contains(log.String(), "for=5m0s") {
		t.Errorf("logged %d times: %s", n, &log)
	}
	d.paused.Store(true)
	if n := logged(6 * time.Minute); n != 0 {
		t.Errorf("logged %d times while paused", n)
	}
	d.paused.Store(false)
	d.state.Store(&engine.Snapshot{Note: held.Note, Down: errNotProbed})
	if n := logged(6 * time.Minute); n != 0 {
		t.Errorf("logged %d times while the destination cannot be used", n)
	}
	d.state.Store(&engine.Snapshot{})
	if n := logged(6 * time.Minute); n != 0 {
		t.Errorf("logged %d times when nothing is held", n)
	}
}
