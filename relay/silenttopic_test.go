package relay

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// quietPublisher lets rows of keys that are stuck wait for an answer until the end of the call. Beside others that are accepted it is
// known that it is their topic that is silent.
type quietPublisher struct{ stuckPublisher }

func (p *quietPublisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	errs := p.stuckPublisher.Publish(ctx, messages)
	silent, others := false, false
	for _, err := range errs {
		silent = silent || publisher.ClassOf(err) == publisher.Ambiguous
		others = others || publisher.ClassOf(err) == publisher.Accepted
	}
	if !silent {
		return errs
	}
	<-ctx.Done()
	for i, err := range errs {
		if others && publisher.ClassOf(err) == publisher.Ambiguous {
			errs[i] = publisher.UnavailableError(publisher.ScopeTopic, "silent", "silent while others answer")
		}
	}
	return errs
}

// One topic is silent, and its rows are the first: while nothing else is sent nobody can tell that from a broker that is silent as a whole.
// However many there are, the rows of other topics follow within a few times the publish timeout, and none of them costs an attempt.
func TestRowsBehindASilentTopic(t *testing.T) {
	for _, destinations := range []int{1, 2} {
		for _, keys := range []int{1, 100, 10_000} {
			t.Run(fmt.Sprintf("%d destinations, %d keys", destinations, keys), func(t *testing.T) {
				t.Parallel()
				if raceDetector {
					keys = (keys + 3) / 4
				}
				simulate(t, func(t *testing.T, s *sim) {
					s.limits = Limits{Batch: 1000, Rows: 4096, Bytes: 64 << 20}
					p := &quietPublisher{stuckPublisher{Publisher: s.Broker.Publisher(), answer: func(*publisher.Message) error {
						return publisher.AmbiguousError("no answer", "no answer")
					}}}
					s.destinations[0].Publisher = p
					if destinations == 2 {
						s.destinations = append([]*Destination{s.destination("else", s.Broker, "else")}, s.destinations...)
					}
					for i := range keys {
						k := fmt.Sprint(stuckKey, i)
						s.table.insert(int64(i+1), k+"-0", k, "silent")
					}
					const others = 500
					for i := range others {
						k := fmt.Sprint("k", i)
						s.table.insert(int64(keys+i+1), k+"-0", k, "t")
					}
					stop := s.start()
					defer stop()
					started := time.Now()
					for len(s.Received("t")) < others {
						if time.Sleep(time.Second); time.Since(started) > 3*time.Minute {
							t.Fatalf("%d of %d others flow after %v", len(s.Received("t")), others, time.Since(started))
						}
					}
					t.Logf("the others took %v", time.Since(started))
					p.freed.Store(true)
					s.table.drained(t, 2*time.Minute)
					for i := range keys {
						if r := s.table.row(fmt.Sprintf("%s%d-0", stuckKey, i)); r.attempt > 2 {
							t.Fatalf("%s: attempt %d", r.id, r.attempt)
						}
					}
				})
			})
		}
	}
}
