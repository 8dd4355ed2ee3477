package engine

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// limited makes an engine with a rate that has all of its two shards.
func limited(rate float64, now time.Time) *Engine {
	e := New(Setup{Rate: rate, Shards: 2, Table: &simTable{}})
	e.Own(setOf(0, 1), owner.Set{}, now)
	return e
}

func TestLimiter(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := limited(100, now)
	if got := l.sendable(1000, now); got != 0 {
		t.Errorf("%d rows at once, although none but the first is due", got)
	}
	now = now.Add(time.Hour)
	if got := l.sendable(1000, now); got != 100 {
		t.Errorf("%d rows after a long rest, not those of a second", got)
	}
	l.spend(100)
	if next := l.next(now).Sub(now); next < gather || next > 2*gather {
		t.Errorf("the next ones after %v", next)
	}
	l.spend(-40) // these rows did not reach the broker
	if got := l.sendable(1000, now); got != 40 {
		t.Errorf("%d rows are returned, not 40", got)
	}
	l.Own(setOf(0), owner.Set{}, now)
	now = now.Add(time.Hour)
	if got := l.sendable(1000, now); got != 50 {
		t.Errorf("%d rows with half of the shards", got)
	}
	l.Own(owner.Set{}, owner.Set{}, now)
	l.spend(1)
	if next := l.next(now); next.Before(now.Add(time.Minute)) {
		t.Error("rows without a shard")
	}
	if unlimited := limited(0, now); unlimited.sendable(7, now) != 7 {
		t.Error("a destination without a rate has one")
	}
}

// TestClocksOfCallers: a limiter whose callers read the clock one after the other, and ask with the earlier time last,
// sends all the same.
func TestClocksOfCallers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	l := limited(1, now)
	for range 3 {
		now = now.Add(time.Second)
		l.next(now.Add(time.Microsecond))
		if got := l.sendable(10, now); got != 1 {
			t.Fatalf("%d rows may be sent, not 1", got)
		}
		l.spend(1)
	}
	if got := l.sendable(10, now.Add(time.Second/2)); got != 0 {
		t.Errorf("%d rows may be sent half a second later", got)
	}
}
