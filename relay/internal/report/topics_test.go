package report

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// The first topic that is held is logged at once. Ten thousand others take one more line soon, and one a minute then. None is
// passed over in silence.
func TestManyTopicsTakeFewLines(t *testing.T) {
	var log bytes.Buffer
	logger, now := slog.New(slog.NewTextHandler(&log, nil)), time.Now()
	lines := func() (found []string) {
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(line, "msg=")
			found = append(found, strings.TrimSpace(line))
		}
		log.Reset()
		return found
	}
	n, held := NewTopics(logger), Change{Held, "topology"}
	after := func(d time.Duration, topics int) []string {
		now = now.Add(d)
		for i := range topics {
			n.Add(held, fmt.Sprint("t", i), errors.New("no stream"), now)
		}
		n.Flush(false, now)
		return lines()
	}
	expect := func(found []string, want ...string) {
		t.Helper()
		if len(found) != len(want) {
			t.Fatalf("%d lines, want %d:\n%s", len(found), len(want), strings.Join(found, "\n"))
		}
		for i := range want {
			if !strings.Contains(found[i], want[i]) {
				t.Errorf("%s\nlacks %s", found[i], want[i])
			}
		}
	}
	expect(after(0, 1), "topic=t0 reason")
	expect(after(time.Second, 10_000))
	expect(after(9*time.Second, 0), `topic="t0, t1, t2, t3, t4" others=9995`)
	for range 3 {
		expect(after(time.Second, 2))
	}
	expect(after(57*time.Second, 0), `topic="t0, t1" reason`)
	expect(after(time.Second, 1))
	n.Flush(true, now)
	expect(lines(), "topic=t0 reason")
	expect(after(time.Minute, 0))
	expect(after(time.Second, 1), "topic=t0 reason")
}
