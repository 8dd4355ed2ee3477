package relay

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// Where each tail scan begins at the very beginning, rows that wait there are not read again each time: other rows do
// not wait for that. When the trouble is over, they flow at once.
func TestRowsThatWaitAreNotReadAtEachPoll(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]func(*simTable){
		"larger priorities first":     func(s *simTable) { s.ranked = true },
		"an order that does not grow": func(s *simTable) { s.ordinal = false },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits = engine.Limits{Batch: 100, Rows: 400, Bytes: 1 << 20}
				shape(s.table)
				s.table.perRow = 10 * time.Microsecond
				s.Remove("gone")
				const held, others = 5000, 500
				for i := range held {
					s.table.insert(int64(i+1), fmt.Sprintf("held%04d-0", i), fmt.Sprint("held", i), "gone")
				}
				defer s.start()()
				time.Sleep(20 * time.Second) // all of them are known
				before := s.table.returnedCount()
				for i := range others {
					s.table.insert(int64(held+i+1), fmt.Sprintf("other%04d-0", i), fmt.Sprint("other", i), "t")
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(time.Second)
				if got := len(s.Received("t")); got != others {
					t.Errorf("%d of %d other rows were relayed", got, others)
				}
				returned := s.table.returnedCount() - before
				if scans := 11 * int(time.Second) / int(5*time.Second); returned > (scans+2)*held+10*others {
					t.Errorf("%d rows were read while %d came", returned, others)
				}
				s.Create("gone")
				s.table.drained(t, 5*time.Second)
			})
		})
	}
}

// The read that is to bring the rows of keys that waited fails once. A row that is inserted then must not go before
// them.
func TestReadThatBringsRowsThatWaitedFails(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]func(*simTable){
		"ranked": func(s *simTable) { s.ranked = true }, "no ordinal": func(s *simTable) { s.ordinal = false },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits = engine.Limits{Batch: 100, Rows: 400, Bytes: 1 << 20}
				shape(s.table)
				s.Remove("gone")
				for i := range 5 {
					s.table.insert(int64(i+1), fmt.Sprintf("k-%d", i), "k", "gone")
				}
				defer s.start()()
				time.Sleep(7 * time.Second)
				s.Create("gone")
				for len(s.All()) == 0 {
					time.Sleep(100 * time.Microsecond)
				}
				s.table.setDown(true) // the head is accepted; the database fails for a moment
				time.Sleep(300 * time.Millisecond)
				s.table.insert(10, "k-9", "k", "gone")
				s.table.setDown(false)
				s.table.drained(t, time.Minute)
				checkOrder(t, s.All())
			})
		})
	}
}

// slowly answers the first calls of a message as told, after a time.
type slowly struct {
	publisher.Publisher
	mu    sync.Mutex
	tries map[string]int
	told  func(id string, try int) (time.Duration, error)
}

func (p *slowly) Publish(ctx context.Context, messages []publisher.Message) []error {
	id := messages[0].ID
	p.mu.Lock()
	p.tries[id]++
	took, err := p.told(id, p.tries[id])
	p.mu.Unlock()
	time.Sleep(took)
	if err != nil {
		return []error{err}
	}
	return p.Publisher.Publish(ctx, messages)
}

// While the head of one key tries a topic and has no answer yet, the answer to another row says that each further try
// may leave a copy. All keys go on when the topic is back.
func TestKeyGoesOnAfterItsHeadTriedBesideAnother(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.limits.Batch = 1
		quiet := publisher.UnavailableError(publisher.ScopeTopic, "no answer", "no answer")
		copies := &publisher.Error{
			Class: publisher.Unavailable, Scope: publisher.ScopeTopic, Short: "no answer", Err: quiet,
			Repeats: true,
		}
		s.destinations[0].Publisher = &slowly{
			Publisher: s.destinations[0].Publisher, tries: map[string]int{},
			told: func(id string, try int) (time.Duration, error) {
				switch {
				case id == "a" && try == 1:
					return 10 * time.Millisecond, quiet
				case id == "a" && try == 2: // it tries the topic
					return 3 * time.Second, quiet
				case try == 1:
					return 600 * time.Millisecond, copies
				default:
					return 3 * time.Second, nil
				}
			},
		}
		for n, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} { // some of them have another worker than a
			s.table.insert(int64(n), id, id, "t")
		}
		defer s.start()()
		s.table.drained(t, time.Hour)
	})
}
