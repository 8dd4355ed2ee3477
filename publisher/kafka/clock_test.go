package kafka

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// refuseOlder makes every topic refuse records older than age.
func refuseOlder(f *fakeCluster, age time.Duration) {
	f.set(func() {
		f.bend = func(b *fakeBatch) fault {
			if slices.ContainsFunc(b.times, func(at time.Time) bool { return time.Since(at) > age }) {
				return fault{code: kafkago.InvalidTimestamp}
			}
			return fault{}
		}
	})
}

// If a topic refuses old records, its records get the current time. All are accepted, in order, with a few requests,
// however many records there are.
func TestOldRowsGetTheTimeOfNow(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 100, 10_000} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0, 0)
		var logged bytes.Buffer
		p := f.open(func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
		refuseOlder(f, time.Hour)
		begun := time.Now()
		var messages []publisher.Message
		var ids []string
		for i := range n { // over two days up to half a minute ago
			m := publisher.Message{ID: fmt.Sprint(i), Topic: "t", Key: rows("t", 0, 2, "k")[0].Key}
			m.Inserted = begun.Add(-30*time.Second - time.Duration(n-i)*48*time.Hour/time.Duration(n))
			messages, ids = append(messages, m), append(ids, m.ID)
		}
		for i, err := range answersOf(t, p, messages) {
			if err != nil {
				t.Fatalf("row %d of %d: %v", i, n, err)
			}
		}
		expect(t, "log", f.log("t", 0), ids...)
		for i, at := range f.topics["t"][0].times {
			if at.Before(begun.Truncate(time.Millisecond)) {
				t.Errorf("row %d of %d has the time of %v ago", i, n, begun.Sub(at))
			}
		}
		if f.requests > 12 {
			t.Errorf("%d requests for %d rows", f.requests, n)
		}
		other := rows("t", 1, 2, "other")
		other[0].Inserted = begun.Add(-3 * time.Hour)
		expect(t, "the other partition", publish(t, p, other), ok)
		if report := strings.Count(logged.String(), "refuses records as old"); report != 1 {
			t.Errorf("logged %d times:\n%s", report, &logged)
		}
		if epoch := f.topics["t"][0].producers[1].epoch; epoch != 0 {
			t.Errorf("a refusal cost %d epochs", epoch)
		}
	}
}

// A time in the future, for example from a column without a time zone, becomes the current time.
func TestFutureTimesAreNow(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_767_000_000_123)
	for _, test := range []struct{ inserted, want time.Time }{
		{now.Add(8 * time.Hour), now},
		{now.Add(time.Millisecond), now},
		{now, now},
		{now.Add(-time.Hour), now.Add(-time.Hour)},
		{time.Time{}, now},
		{time.Unix(-5, 0), time.Unix(0, 0)},
	} {
		if got := clockAt(now).of(&publisher.Message{Inserted: test.inserted}); got != test.want.UnixMilli() {
			t.Errorf("inserted at %v: %v, want %v", test.inserted, time.UnixMilli(got), test.want)
		}
	}
}

// If a topic refuses even the current time, because clocks differ, its rows are held. No row fails because of a time.
func TestTimeOfNowIsRefused(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	refuseOlder(f, -time.Hour)
	messages := rows("t", 0, 1, "a", "b")
	messages[0].Inserted = time.Now().Add(-time.Hour)
	answers := answersOf(t, p, messages)
	for _, err := range answers {
		if publisher.ClassOf(err) != missing || publisher.ScopeOf(err) != publisher.ScopeTopic {
			t.Errorf("the time of now is refused: %v", err)
		}
	}
	f.set(func() { f.bend = nil })
	expect(t, "when the clock is set", publish(t, p, messages), ok, ok)
	expect(t, "log", f.log("t", 0), "a", "b")
}

// The old batch whose answer was lost is refused when it is sent again, and its rows go with the current time.
func TestUnresolvedBatchBecomesTooOld(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	f.set(func() { f.bend = times(2, fault{drop: true}) })
	messages := rows("t", 0, 1, "a", "b")
	messages[0].Inserted = time.Now().Add(-2 * time.Hour)
	expect(t, "lost", publish(t, p, messages), unsure, unsure)
	refuseOlder(f, time.Hour)
	expect(t, "given again", publish(t, p, messages), ok, ok)
	expect(t, "log", f.log("t", 0), "a", "b")
}

// The real broker's limits, for rows from before an outage, and for rows of a column without a time zone far in the
// east.
func TestTimeLimitsOnBroker(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic := h.topic(t, 2, kafkago.ConfigEntry{ConfigName: "message.timestamp.before.max.ms", ConfigValue: "3600000"},
		kafkago.ConfigEntry{ConfigName: "message.timestamp.after.max.ms", ConfigValue: "3600000"})
	p := h.open(t, publishertest.NewNetwork())
	messages := benchMessages(topic)[:300]
	begun := time.Now()
	for i := range messages {
		messages[i].Inserted = begun.Add([]time.Duration{-2 * time.Hour, 8 * time.Hour, -5 * time.Second}[i%3])
	}
	expectAccepted(t, p, messages)
	for _, m := range h.received(t, topic, len(messages)) {
		if off := m.Inserted.Sub(begun); off < -time.Second || off > time.Minute {
			t.Errorf("a row has the time of %v ago", begun.Sub(m.Inserted))
		}
	}
}

// The row's own time takes precedence over the time of its insert. Neither is used if all records get the time at which
// they are sent.
func TestTimesOfRecords(t *testing.T) {
	t.Parallel()
	now, inserted, own := time.UnixMilli(1_767_000_000_123), time.UnixMilli(1_766_000_000_000),
		time.UnixMilli(1_765_000_000_000)
	for name, test := range map[string]struct {
		inserted, own time.Time
		sending       bool
		want          time.Time
	}{
		"insert":              {inserted, time.Time{}, false, inserted},
		"own":                 {inserted, own, false, own},
		"own without insert":  {time.Time{}, own, false, own},
		"own, still to come":  {inserted, now.Add(time.Hour), false, now},
		"own, before 1970":    {inserted, time.UnixMilli(-5), false, time.UnixMilli(0)},
		"now":                 {inserted, time.Time{}, true, now},
		"now without insert":  {time.Time{}, time.Time{}, true, now},
		"inserted just now":   {now, time.Time{}, true, now},
		"neither of the two":  {time.Time{}, time.Time{}, false, now},
		"own of another year": {now, own, true, now},
	} {
		m := publisher.Message{Inserted: test.inserted, Time: test.own}
		if got := newPartition("t", 0).clock(now, test.sending).of(&m); got != test.want.UnixMilli() {
			t.Errorf("%s: %v, want %v", name, time.UnixMilli(got), test.want)
		}
	}
}
