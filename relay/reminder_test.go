package relay

import (
	"testing"
	"time"
)

// An outage is told of again every five minutes for as long as it lasts, and one that begins anew has five minutes of its own.
func TestReminder(t *testing.T) {
	t.Parallel()
	var m reminder
	start := time.Now()
	told := 0
	at := func(d time.Duration, trouble bool) {
		if since, due := m.due(trouble, start.Add(d)); due {
			told++
			if want := start.Add(time.Duration(0)); d < time.Hour && !since.Equal(want) || d >= time.Hour && !since.Equal(start.Add(time.Hour)) {
				t.Errorf("after %v: since %v", d, since)
			}
		}
	}
	for d := time.Duration(0); d < 16*time.Minute; d += remindLook {
		at(d, true)
	}
	if told != 3 {
		t.Errorf("told %d times in 16 minutes", told)
	}
	at(16*time.Minute, false)
	for d := time.Hour; d < time.Hour+4*time.Minute; d += remindLook {
		at(d, true)
	}
	if told != 3 {
		t.Error("the next outage was told of too early")
	}
	at(time.Hour+5*time.Minute, true)
	if told != 4 {
		t.Errorf("told %d times", told)
	}
}
