package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Ten thousand changes at once take twenty lines and their number. The next minute has lines of its own.
func TestManyChangesTakeFewLines(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := &Engine{lines: map[string]lines{}, Setup: Setup{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	now := time.Now()
	expect := func(kind string, changes, want int) {
		t.Helper()
		got := 0
		for range changes {
			if e.isNews(kind, now) {
				got++
			}
		}
		if got != want {
			t.Errorf("%d of %d changes take a line, not %d", got, changes, want)
		}
	}
	expect(rowLines, 1, 1)
	expect(rowLines, 10_000, 19)
	expect("locked", 30, 1)
	if e.Report(false, now); log.Len() > 0 {
		t.Errorf("the minute ends too early: %s", &log)
	}
	now = now.Add(time.Minute)
	if e.Report(false, now); !strings.HasSuffix(log.String(), "others=9981\n") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("the others are not counted: %s", &log)
	}
	expect(rowLines, 30, 20)
	expect("locked", 30, 1)
	if e.Report(true, now); !strings.HasSuffix(log.String(), "others=10\n") || strings.Count(log.String(), "\n") != 2 {
		t.Errorf("the last others are not counted: %s", &log)
	}
}
