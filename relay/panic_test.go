package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// A profile that panics fails the rows for which it panics, one or many, and no others.
func TestProfilePanics(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ rows, every int }{{200, 200}, {10_000, 100}, {300, 1}} {
		t.Run(fmt.Sprintf("each %dth of %d", test.every, test.rows), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				var log logtest.Log
				s.log, s.limits = &log, engine.Limits{Batch: 1000, Rows: 4000, Bytes: 8 << 20}
				s.fill(test.rows/10, 10, "t")
				var bad []string
				for i := 0; i < test.rows; i += test.every {
					bad = append(bad, fmt.Sprintf("k%d-%d", i%(test.rows/10), i/(test.rows/10)))
				}
				slices.Sort(bad)
				s.destinations[0].profile = func(m *publisher.Message, _ int64) error {
					if _, found := slices.BinarySearch(bad, m.ID); found {
						m.Payload = m.Payload[:len(m.Payload):0]
					}
					return nil
				}
				stop := s.start()
				s.table.drained(t, time.Minute)
				stop()
				if failed := s.table.failedRows(); !slices.Equal(failed, bad) {
					t.Errorf("%d rows failed, want %d: %.200q", len(failed), len(bad), failed)
				}
				if got := len(s.All()); got != test.rows-len(bad) {
					t.Errorf("%d rows delivered, want %d", got, test.rows-len(bad))
				}
				checkOrder(t, s.All())
				if r := s.table.row(bad[0]); r.attempt != 2 || s.Tries(bad[0]) > 0 ||
					!strings.Contains(r.lastError, "relay/panic_test.go:") {
					t.Errorf("%+v after %d tries", r, s.Tries(bad[0]))
				}
				if logged := log.String(); strings.Count(logged, "level=ERROR") != 1 ||
					!strings.Contains(logged, ".TestProfilePanics") {
					t.Errorf("the log says\n%.3000s", logged)
				}
			})
		})
	}
}

// panicking is a publisher that panics when it sees certain messages, after publishing the messages before them.
type panicking struct {
	publisher.Publisher
	on atomic.Pointer[func(m *publisher.Message) bool] // nil: no more
}

func (p *panicking) Publish(ctx context.Context, messages []publisher.Message) []error {
	on := p.on.Load()
	at := slices.IndexFunc(messages, func(m publisher.Message) bool { return on != nil && (*on)(&m) })
	if at >= 0 {
		p.Publisher.Publish(ctx, messages[:at])
		panic("out of sense")
	}
	return p.Publisher.Publish(ctx, messages)
}

// panics makes the publisher of the first destination panic when it sees certain messages.
func (s *sim) panics(on func(m *publisher.Message) bool) *panicking {
	p := &panicking{Publisher: s.Publisher()}
	p.on.Store(&on)
	s.destinations[0].Publisher = p
	return p
}

// The row of a message at which a publisher panics each time fails, and all other rows are delivered in order.
func TestPublisherPanicsOnOneMessage(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		var log logtest.Log
		s.log = &log
		n := s.fill(20, 20, "t")
		s.panics(func(m *publisher.Message) bool { return m.ID == "k3-3" })
		stop := s.start()
		for i := 0; !s.table.row("k3-3").failed && i < 600; i++ { // other rows show that the broker is not at fault
			s.table.insert(int64(1000+i), "other"+strconv.Itoa(i), "", "t")
			n++
			time.Sleep(time.Second)
		}
		s.table.drained(t, time.Second)
		stop()
		if failed := s.table.failedRows(); !slices.Equal(failed, []string{"k3-3"}) ||
			!strings.Contains(s.table.row("k3-3").lastError, "relay/panic_test.go:") {
			t.Errorf("failed: %q, %s", failed, s.table.row("k3-3").lastError)
		}
		if first, duplicates := firsts(s.All()); len(first) != n-1 || duplicates > s.limits.Rows {
			t.Errorf("%d of %d rows delivered, %d duplicates", len(first), n-1, duplicates)
		}
		checkOrder(t, s.All())
		for _, id := range []string{"k1-1", "k3-2", "k3-4"} {
			if r := s.table.row(id); r.attempt != 1 || r.failed {
				t.Errorf("%s: %+v", id, r)
			}
		}
		if overlaps := s.Overlaps(); len(overlaps) > 0 {
			t.Errorf("keys in two calls at once: %q", overlaps)
		}
		if logged := log.String(); strings.Count(logged, "what the publisher was given is published again") != 1 ||
			!strings.Contains(logged, "panicking") {
			t.Errorf("the log says\n%.3000s", logged)
		}
	})
}

// A publisher that panics on every message holds its destination and costs the rows no attempts.
func TestPublisherAlwaysPanics(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		var log logtest.Log
		s.log = &log
		n := s.fill(20, 20, "t")
		p := s.panics(func(*publisher.Message) bool { return true })
		defer s.start()()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if down := s.destinations[0].snapshot().Down; down == nil {
			t.Error("the destination is not held")
		}
		p.on.Store(nil)
		s.table.drained(t, 2*time.Minute)
		for _, id := range []string{"k0-0", "k19-19"} {
			if r := s.table.row(id); r.attempt != 1 || !r.relayed || r.lastError != "" {
				t.Errorf("%s: %+v", id, r)
			}
		}
		if got := len(s.All()); got != n {
			t.Errorf("%d deliveries of %d rows", got, n)
		}
		checkOrder(t, s.All())
		if logged := log.String(); strings.Count(logged, "level=ERROR") != 1 || strings.Count(logged, "\n") > 10 {
			t.Errorf("the log says\n%.3000s", logged)
		}
	})
}

// speechless panics when it is pinged.
type speechless struct {
	publisher.Publisher
	panics atomic.Bool
}

func (s *speechless) Ping(context.Context) error {
	if s.panics.Load() {
		panic("no words")
	}
	return nil
}

// A panic in a ping is an outage, which ends.
func TestPingPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		broker := &speechless{}
		broker.panics.Store(true)
		d := &Destination{Name: "d", Publisher: broker}
		r := &Relay{
			config: &Config{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			owner:  &owner.Owner{},
		}
		ctx, cancel := context.WithCancel(t.Context())
		go r.probe(ctx, d)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := d.unusable(); err == nil || !strings.Contains(err.Error(), "no words") {
			t.Errorf("the broker is thought to be %v", err)
		}
		broker.panics.Store(false)
		time.Sleep(probeEvery)
		synctest.Wait()
		if err := d.unusable(); err != nil {
			t.Error(err)
		}
		cancel()
		synctest.Wait()
		if logged := log.String(); strings.Count(logged, "level=ERROR") != 1 || strings.Count(logged, "\n") != 1 {
			t.Errorf("the log says\n%s", logged)
		}
	})
}

// The last_error of a row is the error found when it was read, whatever the template makes of the rest of the row.
func TestFirstErrorOfARowStays(t *testing.T) {
	t.Parallel()
	template, err := route.ParseTemplate("{tenant}.{topic}", &route.Extra{})
	if err != nil {
		t.Fatal(err)
	}
	tooLarge := publisher.PermanentError("row too large", "too large")
	row := outbox.Row{Message: publisher.Message{Topic: "t"}, Extra: []string{""}, Nulls: 1, Invalid: tooLarge}
	d := Destination{
		route: route.Route{Topic: template}, profile: func(*publisher.Message, int64) error {
			return errors.New("not a document")
		},
	}
	if d.render(&row, 1); !errors.Is(row.Invalid, tooLarge) {
		t.Errorf("the row is invalid because of %v", row.Invalid)
	}
}
