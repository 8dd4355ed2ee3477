package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Ten thousand changes at once take twenty lines and one that says so. The next minute has lines of its own.
func TestManyChangesTakeFewLines(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := &Engine{lines: map[string]int{}, Setup: Setup{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	now := time.Now()
	expect := func(kind string, changes, want, said int) {
		t.Helper()
		got := 0
		for range changes {
			if e.isNews(kind, now) {
				got++
			}
		}
		if got != want || strings.Count(log.String(), "about="+kind) != said {
			t.Errorf("%d of %d changes take a line, not %d:\n%s", got, changes, want, &log)
		}
	}
	expect(rowLines, 1, 1, 0)
	expect(rowLines, 10_000, 19, 1)
	expect("locked", 30, 1, 0)
	now = now.Add(time.Minute)
	expect(rowLines, 30, 20, 2)
	expect("locked", 30, 1, 0)
}
