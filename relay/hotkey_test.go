package relay

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// slowLink sends the messages of a call one by one, each after the answer to the previous one, which takes some time.
type slowLink struct {
	publisher.Publisher
	roundTrip time.Duration
}

func (l slowLink) Publish(ctx context.Context, messages []publisher.Message) []error {
	errs := make([]error, len(messages))
	for i := range messages {
		if ctx.Err() != nil || publisher.StopOf(ctx).Closed() {
			errs[i] = publisher.ErrNotAttempted
			continue
		}
		errs[i] = l.Publisher.Publish(ctx, messages[i:i+1])[0]
		select {
		case <-time.After(l.roundTrip):
		case <-ctx.Done():
			errs[i] = publisher.AmbiguousError("no answer", "no answer")
		}
	}
	return errs
}

// Publishing the rows of a hot key one by one may take much longer than the publish timeout. None is published twice
// because of this, and a stop waits for the answer to at most one of them.
func TestHotKeyAtASlowBroker(t *testing.T) {
	t.Parallel()
	const rows, roundTrip = 60, 700 * time.Millisecond
	begin := func(s *sim) (stop func()) {
		to := s.destination("default", s.Broker)
		to.Publisher = slowLink{to.Publisher, roundTrip}
		s.destinations = []*Destination{to}
		for i := range rows {
			s.table.insert(int64(i+1), fmt.Sprint("row-", i), "key", "t")
		}
		return s.start()
	}
	t.Run("to the end", func(t *testing.T) {
		simulate(t, func(t *testing.T, s *sim) {
			stop := begin(s)
			s.table.drained(t, 2*rows*roundTrip)
			stop()
			if received := s.Received("t"); len(received) != rows {
				t.Errorf("%d rows were published %d times", rows, len(received))
			}
		})
	})
	t.Run("stopped", func(t *testing.T) {
		simulate(t, func(t *testing.T, s *sim) {
			stop := begin(s)
			s.Await(t, 4)
			began := time.Now()
			stop()
			if took := time.Since(began); took > 2*roundTrip {
				t.Errorf("the stop took %v", took)
			}
			if received, left := len(s.Received("t")), len(s.table.pending()); received+left != rows {
				t.Errorf("%d rows were published, and %d of %d are pending", received, left, rows)
			}
		})
	})
}
