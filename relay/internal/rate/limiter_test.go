package rate

import (
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := New(100, 16)
	l.Own(16, now)
	if got := l.Rows(1000, now); got != 0 {
		t.Errorf("%d rows at once, although none but the first is due", got)
	}
	now = now.Add(time.Hour)
	if got := l.Rows(1000, now); got != 100 {
		t.Errorf("%d rows after a long rest, not those of a second", got)
	}
	l.Spend(100)
	if next := l.Next(now).Sub(now); next < gather || next > 2*gather {
		t.Errorf("the next ones after %v", next)
	}
	l.Spend(-40) // these rows did not reach the broker
	if got := l.Rows(1000, now); got != 40 {
		t.Errorf("%d rows are returned, not 40", got)
	}
	l.Own(8, now)
	now = now.Add(time.Hour)
	if got := l.Rows(1000, now); got != 50 {
		t.Errorf("%d rows with half of the shards", got)
	}
	l.Own(0, now)
	l.Spend(1)
	if next := l.Next(now); next.Before(now.Add(time.Minute)) {
		t.Error("rows without a shard")
	}
	if New(0, 16).Rows(7, now) != 7 {
		t.Error("a destination without a rate has one")
	}
}

// TestClocksOfCallers: a limiter whose callers read the clock one after the other, and ask with the earlier time last, sends all the same.
func TestClocksOfCallers(t *testing.T) {
	t.Parallel()
	l, now := New(1, 2), time.Unix(1000, 0)
	l.Own(2, now)
	for range 3 {
		now = now.Add(time.Second)
		l.Next(now.Add(time.Microsecond))
		if got := l.Rows(10, now); got != 1 {
			t.Fatalf("%d rows may be sent, not 1", got)
		}
		l.Spend(1)
	}
	if got := l.Rows(10, now.Add(time.Second/2)); got != 0 {
		t.Errorf("%d rows may be sent half a second later", got)
	}
}
