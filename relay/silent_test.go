package relay

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// silent is a publisher to which nobody answers.
type silent struct {
	publisher.Publisher
	calls atomic.Int64
}

func (p *silent) Publish(_ context.Context, messages []publisher.Message) []error {
	p.calls.Add(1)
	errs := make([]error, len(messages))
	for i := range errs {
		errs[i] = publisher.AmbiguousError("no answer", "no answer")
	}
	return errs
}

// A destination that answers nothing is tried as seldom as one that is away, however many rows have been tried alone.
func TestSilentDestinationIsTriedSeldom(t *testing.T) {
	for _, keys := range []int{1, 20, 100} {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.fill(keys, 10, "t")
				broker := &silent{Publisher: s.destinations[0].Publisher}
				s.destinations[0].Publisher = broker
				defer s.start()()
				time.Sleep(5 * time.Minute) // until all have been tried alone
				before := broker.calls.Load()
				time.Sleep(time.Minute)
				if tries := broker.calls.Load() - before; tries < 30 || tries > 5*60 {
					t.Errorf("it was tried %d times in a minute", tries)
				}
				synctest.Wait()
				if len(s.loop.metrics.snapshot().down) != 1 {
					t.Error("the destination is not held")
				}
			})
		})
	}
}
