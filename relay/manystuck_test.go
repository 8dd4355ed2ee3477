package relay

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// Heads of many keys that are due at about the same time are read together, with one look for late rows.
func TestHeadsOfManyKeysAreReadTogether(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		const topics = 100
		for i := range int64(topics) {
			topic := fmt.Sprint("missing-", i)
			s.Remove(topic)
			s.table.insert(i, fmt.Sprint("row-", i), fmt.Sprint("key-", i), topic)
		}
		stop := s.start()
		defer stop()
		time.Sleep(20 * time.Second) // the pauses grow
		tried := func() (n int) {
			for i := range topics {
				n += s.Tries(fmt.Sprint("row-", i))
			}
			return n
		}
		before, tries := s.table.readCount(), tried()
		time.Sleep(10 * time.Second)
		tries = tried() - tries
		if reads := s.table.readCount() - before; reads > 600 || tries < 5*topics {
			t.Errorf("in ten seconds %d reads for %d tries, beside 200 polls", reads, tries)
		}
	})
}

// stuckPublisher answers with an error for the rows of stuck keys, until they are freed.
type stuckPublisher struct {
	publisher.Publisher
	answer func(*publisher.Message) error
	freed  atomic.Bool
	tries  atomic.Int64 // attempts of stuck rows
}

func (p *stuckPublisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	errs, stuck := make([]error, len(messages)), map[string]bool{}
	var others []publisher.Message
	var places []int
	for i := range messages {
		m := &messages[i]
		switch key := string(m.Key); {
		case p.freed.Load() || !strings.HasPrefix(key, stuckKey):
			others, places = append(others, *m), append(places, i)
		case stuck[key]:
			errs[i] = publisher.ErrNotAttempted
		default:
			p.tries.Add(1)
			stuck[key] = true
			errs[i] = p.answer(m)
		}
	}
	for i, err := range p.Publisher.Publish(ctx, others) {
		errs[places[i]] = err
	}
	return errs
}

// However many keys or topics are stuck, and however expensive it is to read them, the other rows flow nearly as if the
// stuck ones were absent, and retrying them costs the database little. When the trouble is over the stuck rows
// continue, the sooner the fewer there are.
func TestManyStuckKeysCostOthersLittle(t *testing.T) {
	alone := flowBeside(t, 0, false, nil)
	many := 10_000
	if raceDetector {
		many /= 10
	}
	for name, answer := range map[string]func(*publisher.Message) error{
		"refused": func(*publisher.Message) error { return publisher.RefusedError("no", "no") },
		"no leader": func(*publisher.Message) error {
			return publisher.WithFate(publisher.UnavailableError(publisher.ScopeMessage, "no leader", "no leader"),
				publisher.Fate{Kind: publisher.FatePartition, Name: "t/0"})
		},
		"alone": func(*publisher.Message) error {
			return publisher.UnavailableError(publisher.ScopeMessage, "busy", "busy")
		},
		"no topic": func(m *publisher.Message) error {
			return publisher.TopologyError("no topic", "topic %q is missing", m.Topic)
		},
	} {
		for _, byKey := range []bool{false, true} {
			for _, keys := range []int{1, 100, many} {
				t.Run(fmt.Sprintf("%s, %d keys, index %t", name, keys, byKey), func(t *testing.T) {
					t.Parallel()
					beside := flowBeside(t, keys, byKey, answer)
					t.Logf("alone %+v, beside %+v", alone, beside)
					if beside.flowed > 3*alone.flowed+time.Second {
						t.Errorf("the others took %v, alone %v", beside.flowed, alone.flowed)
					}
					if beside.busy > 60 {
						t.Errorf("while nothing but stuck keys is there, the reader is busy for %d of 100", beside.busy)
					}
					soon := 2500 * time.Millisecond
					if keys > 100 || name == "refused" {
						soon = time.Minute
					}
					if beside.free > soon {
						t.Errorf("after the trouble they took %v", beside.free)
					}
				})
			}
		}
	}
}

// flow describes how rows flow beside stuck ones.
type flow struct {
	flowed time.Duration // time until the others were relayed
	busy   int           // percent of the time afterwards that reads took
	free   time.Duration // time from the end of the trouble until the stuck ones were relayed
	tries  int64         // attempts of stuck rows in a second
}

// flowBeside relays a backlog in which some keys are stuck, each on a topic of its own.
func flowBeside(t *testing.T, keys int, byKey bool, answer func(*publisher.Message) error) (f flow) {
	rows := 8_000
	if keys > 1000 {
		rows = 24_000
	}
	if raceDetector {
		rows, keys = rows/4, (keys+3)/4
	}
	simulate(t, func(t *testing.T, s *sim) {
		s.limits = engine.Limits{Batch: 1000, Rows: 4096, Bytes: 64 << 20}
		p := &stuckPublisher{Publisher: s.Broker.Publisher(), answer: answer}
		to := s.destinations[0]
		to.Publisher, to.MaxAttempts, to.BackoffMax = p, 1<<20, 10*time.Second
		s.table.perRow, s.table.byKey = 2*time.Microsecond, byKey
		others := rows
		for i := range rows {
			key, topic := fmt.Sprintf("k%d", i%997), "t"
			if i%2 == 0 && keys > 0 {
				n := i / 2 % keys
				key, topic = fmt.Sprintf("%s%d", stuckKey, n), fmt.Sprintf("t%d", n)
				others--
			}
			s.table.insert(int64(i+1), fmt.Sprintf("%s-%d", key, i), key, topic)
		}
		started := time.Now()
		stop := s.start()
		defer stop()
		for len(s.table.pending()) > rows-others {
			if time.Sleep(10 * time.Millisecond); time.Since(started) > time.Minute {
				t.Fatalf("%d of %d others are pending after a minute", len(s.table.pending())-rows+others, others)
			}
		}
		f.flowed = time.Since(started)
		const watched = 20 * time.Second
		reads, tries := s.table.work(), p.tries.Load()
		time.Sleep(watched)
		f.busy, f.tries = int(100*(s.table.work()-reads)/watched), (p.tries.Load()-tries)/int64(watched.Seconds())
		p.freed.Store(true)
		started = time.Now()
		s.table.drained(t, 10*time.Minute)
		f.free = time.Since(started)
		checkOrder(t, s.All())
	})
	return f
}

// A topic that is back is tried soon beside very many keys that are refused, also where one row is sent at a time.
func TestTopicIsTriedBesideRefusedKeys(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]func(*sim){
		"a row in a second": func(s *sim) { s.destinations[0].Rate = 1 },
		"a row in a batch":  func(s *sim) { s.limits.Batch = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits = engine.Limits{Batch: 1000, Rows: 4096, Bytes: 64 << 20}
				to := s.destinations[0]
				to.MaxAttempts, to.BackoffMax = 1<<20, 10*time.Second
				to.Publisher = &stuckPublisher{
					Publisher: s.Broker.Publisher(), answer: func(*publisher.Message) error {
						return publisher.RefusedError("no", "no")
					},
				}
				one(s)
				s.Remove("missing")
				s.table.insert(1, "held", "held", "missing")
				for i := range 1000 {
					s.table.insert(int64(i+2), fmt.Sprint("r", i), fmt.Sprint(stuckKey, i), "t")
				}
				defer s.start()()
				time.Sleep(time.Minute)
				s.Create("missing")
				for began := time.Now(); !s.table.row("held").relayed; time.Sleep(100 * time.Millisecond) {
					if time.Since(began) > time.Minute {
						t.Fatal("the topic has not been tried for a minute")
					}
				}
			})
		})
	}
}
