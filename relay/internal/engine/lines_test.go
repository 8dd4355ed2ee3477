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
	now := time.Now()
	l := lines{logger: slog.New(slog.NewTextHandler(&log, nil)), more: "more"}
	expect := func(topics, lines int, text string) {
		t.Helper()
		for range topics {
			l.log(slog.LevelWarn, now, "topic is held")
		}
		l.flush(false, now)
		if got := log.String(); strings.Count(got, "\n") != lines || !strings.Contains(got, text) {
			t.Errorf("the log is\n%s, want %d lines with %q", got, lines, text)
		}
		log.Reset()
	}
	expect(1, 1, "topic is held")
	expect(10_000, 19, "topic is held")
	now = now.Add(time.Minute)
	expect(0, 1, "msg=more others=9981")
	expect(30, 20, "topic is held")
	l.flush(true, now)
	if got := log.String(); !strings.Contains(got, "others=10") {
		t.Errorf("the log is %s", got)
	}
}
