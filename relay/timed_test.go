package relay

import (
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// Rows with available_at keep no order: neither such a row after a younger one of its key nor a plain row after a
// younger one with available_at counts as out of order, with and without an index of due times. A plain row after a
// younger plain one does.
func TestTimedRowsAreNotOutOfOrder(t *testing.T) {
	t.Parallel()
	for name, index := range map[string]bool{"with the index of due times": true, "without it": false} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.table.delays, s.table.readsDue = true, index
				reader := sdk.NewManualReader()
				s.meter = sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test")
				defer s.start()()
				violations := func(want int64, what string) {
					time.Sleep(2 * time.Second)
					if n := len(s.table.pending()); n > 0 {
						t.Errorf("%s: %d rows are pending", what, n)
					}
					if got := sumOf(t, reader, "order_violations"); got != want {
						t.Errorf("%s: %d rows were out of order, not %d", what, got, want)
					}
				}
				s.table.insertLater(2, "timed", "k", "t", 2*time.Second)
				time.Sleep(time.Second)
				s.table.insert(3, "younger", "k", "t")
				violations(0, "a timed row after a plain one")
				s.table.insertLater(5, "due at once", "q", "t", -time.Minute)
				time.Sleep(time.Second)
				s.table.insert(4, "older", "q", "t")
				violations(0, "a plain row after a timed one")
				s.table.insert(1, "late", "k", "t")
				time.Sleep(10 * time.Second) // until a sweep
				violations(1, "a plain row after a plain one")
			})
		})
	}
}
