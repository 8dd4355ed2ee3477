package relay

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// counted is a sim whose log and metrics are read.
type counted struct {
	*sim
	log    logtest.Log
	reader *metric.ManualReader
}

func count(s *sim) *counted {
	c := &counted{sim: s, reader: metric.NewManualReader()}
	s.log, s.meter = &c.log, metric.NewMeterProvider(metric.WithReader(c.reader)).Meter("test")
	return c
}

// unexpected returns the value of the metric.
func (c *counted) unexpected() (n int64) {
	var all metricdata.ResourceMetrics
	if err := c.reader.Collect(context.Background(), &all); err != nil {
		c.t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "unexpected_duplicates" {
				for _, point := range sum.DataPoints {
					n += point.Value
				}
			}
		}
	}
	return n
}

// expect fails unless the given number of duplicates was counted, and duplicates were reported for the given number of
// streams.
func (c *counted) expect(duplicates int64, streams int) {
	c.t.Helper()
	if got := c.unexpected(); got != duplicates {
		c.t.Errorf("counted %d unexpected duplicates, want %d", got, duplicates)
	}
	if got := strings.Count(c.log.String(), "dropped by their broker as duplicates"); got != streams {
		c.t.Errorf("logged %d times, want %d:\n%s", got, streams, c.log.String())
	}
}

// replay makes every relayed row pending again.
func replay(t *simTable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		r.relayed = false
		t.reopen(r)
	}
}

func duplicateOf(stream string) error {
	return &publisher.Duplicate{Stream: stream, Remedy: "do something"}
}

// A stream that drops rows that nobody has sent is reported once, and each row is counted and marked.
func TestDuplicateOfWhatWasNeverSent(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 100, 10_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				c := count(s)
				stop := s.start()
				defer stop()
				time.Sleep(time.Second) // the shards were acquired before the rows were inserted
				for i := range n {
					id := fmt.Sprintf("k%d-%d", i%50, i/50)
					s.Answer(id, duplicateOf([]string{"A", "B"}[i%2]))
					s.table.insert(int64(i+1), id, fmt.Sprint("k", i%50), "t")
				}
				s.table.drained(t, time.Minute)
				c.expect(int64(n), min(n, 2))
				s.Answer("other", nil)
				s.table.insert(int64(n+1), "other", "k0", "t")
				s.table.drained(t, time.Minute)
				c.expect(int64(n), min(n, 2))
				if got := len(s.All()); got != 1 {
					t.Errorf("%d messages, want the one that was stored", got)
				}
			})
		})
	}
}

// These are the duplicates that message ids are for: a publish without an answer, the previous owner's rows, a row sent
// again on purpose.
func TestDuplicateOfWhatWasSent(t *testing.T) {
	t.Parallel()
	t.Run("without an answer", func(t *testing.T) {
		simulate(t, func(t *testing.T, s *sim) {
			c := count(s)
			stop := s.start()
			defer stop()
			time.Sleep(time.Second)
			for i := range 300 {
				id := fmt.Sprintf("k%d-%d", i%30, i/30)
				s.LoseAnswer(id, 1+i%5)
				s.Answer(id, duplicateOf("A"))
				s.table.insert(int64(i+1), id, fmt.Sprint("k", i%30), "t")
			}
			s.table.drained(t, 10*time.Minute)
			c.expect(0, 0)
		})
	})
	// With several destinations, the rows of one that is held leave memory and are read again.
	t.Run("without an answer, forgotten meanwhile", func(t *testing.T) {
		simulate(t, func(t *testing.T, s *sim) {
			c := count(s)
			s.destinations = append(s.destinations, s.destination("rest", publishertest.NewBroker()))
			s.destinations[0].Topics = []string{"t"}
			stop := s.start()
			defer stop()
			time.Sleep(time.Second)
			for i := range 300 {
				id := fmt.Sprintf("k%d-%d", i%30, i/30)
				s.LoseAnswer(id, 1)
				s.Answer(id, duplicateOf("A"))
				s.table.insert(int64(i+1), id, fmt.Sprint("k", i%30), "t")
			}
			s.table.drained(t, 10*time.Minute)
			c.expect(0, 0)
		})
	})
	t.Run("by the shard's last owner", func(t *testing.T) {
		simulate(t, func(t *testing.T, s *sim) {
			c := count(s)
			for i := range 100 {
				id := fmt.Sprint("k-", i)
				s.Answer(id, duplicateOf("A"))
				s.table.insert(int64(i+1), id, "k", "t")
			}
			time.Sleep(time.Second)
			stop := s.start()
			defer stop()
			s.table.drained(t, time.Minute)
			c.expect(0, 0)
		})
	})
	for _, n := range []int{1, 100, 10_000} {
		t.Run(fmt.Sprintf("and relayed, and made pending again, %d rows", n), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				c := count(s)
				stop := s.start()
				defer stop()
				time.Sleep(time.Second)
				for i := range n {
					id := fmt.Sprintf("k%d-%d", i%50, i/50)
					s.Answer(id, nil, duplicateOf("A"))
					s.table.insert(int64(i+1), id, fmt.Sprint("k", i%50), "t")
				}
				s.table.drained(t, time.Minute)
				replay(s.table)
				s.table.drained(t, time.Minute)
				c.expect(0, 0)
			})
		})
	}
}

// A column of times that are hours ahead of the clock gives no information about when its rows were inserted.
func TestDuplicateWithAWrongTime(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		c := count(s)
		for i, inserted := range []time.Time{{}, time.Now().Add(8 * time.Hour)} {
			id := fmt.Sprint("k-", i)
			s.Answer(id, duplicateOf("A"))
			s.table.insert(int64(i+1), id, "k", "t")
			s.table.rows[id].message.Inserted = inserted
		}
		stop := s.start()
		defer stop()
		s.table.drained(t, time.Minute)
		c.expect(0, 0)
	})
}

// The prefix of a destination replaces the database's identity, and a uuid stays as it is. The name of a destination
// with columns of its own comes last.
func TestIdentify(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		id, prefix string
		own        bool // the destination has columns of its own
		want       string
	}{
		{"7.5/public.outbox/1@9", "", false, "7.5/public.outbox/1@9"},
		{"7.5/public.outbox/1@9", "", true, "7.5/public.outbox/1@9/audit"},
		{"7.5/public.outbox/a/b@9", "shop", false, "shop/public.outbox/a/b@9"},
		{"5/public.outbox/1", "shop/eu", true, "shop/eu/public.outbox/1/audit"},
		{"123e4567-e89b-12d3-a456-426614174000", "shop", false, "123e4567-e89b-12d3-a456-426614174000"},
	} {
		row := outbox.Row{Message: publisher.Message{DedupID: test.id}}
		d := &Destination{Name: "audit", DedupPrefix: test.prefix}
		if test.own {
			d.Columns = map[string]string{"relayed_at": "audit_relayed_at"}
		}
		d.identify(&row)
		if row.Message.DedupID != test.want {
			t.Errorf("%+v: %s", test, row.Message.DedupID)
		}
	}
}
