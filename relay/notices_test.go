package relay

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// The log has a bounded number of lines, however many topics are held and come back, and reports how many there were.
func TestManyTopicsAreLoggedInFewLines(t *testing.T) {
	t.Parallel()
	topics := 10_000
	if raceDetector {
		topics /= 10
	}
	for name, scope := range map[string]publisher.Scope{
		"missing":        publisher.ScopeTopic,
		"a part of each": publisher.ScopeMessage,
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.limits = engine.Limits{Batch: 1000, Rows: 4096, Bytes: 64 << 20}
				p := &stuckPublisher{Publisher: s.Broker.Publisher(), answer: func(m *publisher.Message) error {
					err := publisher.UnavailableError(scope, "no leader", "no leader")
					if scope == publisher.ScopeMessage {
						return publisher.WithFate(err, publisher.Fate{Kind: publisher.FatePartition, Name: m.Topic + "/0"})
					}
					return err
				}}
				s.destinations[0].Publisher = p
				for i := range topics {
					key := fmt.Sprint(stuckKey, i)
					s.table.insert(int64(i+1), key+"-1", key, "topic-"+key)
				}
				var log bytes.Buffer
				s.log = &log
				stop := s.start()
				time.Sleep(30 * time.Second)
				note := s.destinations[0].snapshot().Note
				if !strings.Contains(note, fmt.Sprintf("and %d others", topics-1)) {
					t.Errorf("the note is %q", note)
				}
				p.freed.Store(true)
				s.table.drained(t, time.Minute)
				time.Sleep(time.Minute)
				stop()
				if lines := strings.Count(log.String(), "\n"); lines > 45 || !strings.Contains(log.String(), "about=topics") {
					t.Errorf("%d lines: %.3000s", lines, log.String())
				}
			})
		})
	}
}
