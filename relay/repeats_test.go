package relay

import (
	"errors"
	"fmt"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// rejecting is a publisher's answer where one of several queues rejects and the others accept: each attempt leaves a
// copy.
var rejecting error = &publisher.Error{
	Class: publisher.Unavailable, Scope: publisher.ScopeTopic, Repeats: true,
	Short: "queue rejects", Err: errors.New("a queue is full"),
}

// tries returns how often the rows were tried.
func (s *sim) tries(ids []string) int {
	n := 0
	for _, id := range ids {
		n += s.Tries(id)
	}
	return n
}

// One queue rejects while others accept. The copies of any number of rows and keys are bounded by a backoff that
// doubles up to a minute, no row is blamed, each attempt is counted, and the other rows flow.
func TestRepeatedTriesGrowRare(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{1, 100, 1000} {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.interval = time.Second
				// A publisher sends no second message after the first one that comes back.
				s.limits.Batch = 1
				reader := sdk.NewManualReader()
				s.meter = sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test")
				s.fill(keys, 1, "full")
				var ids []string
				for i := range keys {
					id := fmt.Sprintf("k%d-0", i)
					ids = append(ids, id)
					s.Answer(id, manyTimes(rejecting, 1000)...)
				}
				stop := s.start()
				defer stop()
				first := 0
				for minutes := 1; minutes <= 10; minutes++ {
					time.Sleep(time.Minute)
					s.table.insert(int64(10_000+minutes), fmt.Sprint("other-", minutes), "", "t")
					if minutes == 1 {
						first = s.tries(ids)
					}
				}
				if all := s.tries(ids); first > 16 || all-first > 9*3 {
					t.Errorf("%d tries in a minute, %d in ten", first, all)
				}
				if got, want := sumOf(t, reader, "republished"), s.tries(ids); got != int64(want) {
					t.Errorf("%d counted as published again, want %d", got, want)
				}
				if pending := s.table.pending(); len(pending) > keys+1 {
					t.Errorf("%d rows pending", len(pending))
				}
				for _, id := range ids {
					if r := s.table.row(id); r.attempt != 1 || r.failed || r.lastError != "" {
						t.Fatalf("%s: %+v", id, r)
					}
					s.Heal(id)
				}
				s.table.drained(t, time.Minute+5*time.Second)
				checkOrder(t, s.All())
			})
		})
	}
}

func manyTimes(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// sumOf returns the value of a counter without labels.
func sumOf(t *testing.T, reader sdk.Reader, name string) int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == name {
				return m.Data.(metricdata.Sum[int64]).DataPoints[0].Value
			}
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
