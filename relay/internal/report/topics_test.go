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
	n, held := NewTopics(logger), Change{Reason: "topology"}
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

// A topic that is back before it was reported as held is not reported at all, nor is one that is held again before it was reported as
// back. If it is held for another reason, only the last reason is reported.
func TestChangeThatIsUndoneIsNotReported(t *testing.T) {
	var log bytes.Buffer
	now := time.Now()
	n := NewTopics(slog.New(slog.NewTextHandler(&log, nil)))
	missing, down, back := Change{Reason: "topology"}, Change{Reason: "unavailable"}, Change{}
	for _, c := range []Change{missing, down, back} {
		n.Add(c, "first", nil, now)
	}
	log.Reset()
	for i, changes := range [][]Change{
		{missing, back}, {back, missing}, {missing, down}, {missing, back, missing, down, back, down}, {missing, {Part: true}},
	} {
		for _, c := range changes {
			n.Add(c, "abcde"[i:i+1], nil, now)
		}
	}
	n.Flush(true, now)
	got := log.String()
	for text, want := range map[string]int{
		"topic=a": 0, "topic=b": 0, `topic="c, d" reason=unavailable`: 1, "topic=e reason=topology": 1, "level": 3,
	} {
		if strings.Count(got, text) != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", text, strings.Count(got, text), want, got)
		}
	}
}

// Topics that are held and go on again before they are logged leave no line without a topic.
func TestNoLineWithoutTopic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	n, now := NewTopics(slog.New(slog.NewTextHandler(&log, nil))), time.Now()
	held, free := Change{Reason: "topology"}, Change{}
	n.Add(held, "first", nil, now)
	for _, c := range []Change{held, free} {
		for i := range 1000 {
			n.Add(c, fmt.Sprint("t", i), nil, now)
		}
	}
	n.Flush(true, now)
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, `topic=""`) {
			t.Error(line)
		}
	}
}
