package engine

import (
	"testing"
	"time"
)

// Ten thousand changes at once take twenty lines and their number. The next minute has lines of its own.
func TestManyChangesTakeFewLines(t *testing.T) {
	t.Parallel()
	var l lines
	now := time.Now()
	expect := func(changes, want int) {
		t.Helper()
		got := 0
		for range changes {
			if l.room(now) {
				got++
			}
		}
		if got != want {
			t.Errorf("%d of %d changes take a line, not %d", got, changes, want)
		}
	}
	expect(1, 1)
	expect(10_000, 19)
	if l.end(false, now) != 0 {
		t.Error("the minute ends too early")
	}
	if now = now.Add(time.Minute); l.end(false, now) != 9981 {
		t.Error("the others are not counted")
	}
	expect(30, 20)
	if l.end(true, now) != 10 {
		t.Error("the last others are not counted")
	}
}
