package relay

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// Rows of one partition that wait for a leader are reported once, not key by key, and not while a leader is only
// moving.
func TestPartOfATopicThatIsHeldIsLogged(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		leaderless := publisher.WithFate(
			publisher.UnavailableError(publisher.ScopeMessage, "no leader", "topic %q partition 3 has no leader", "t"),
			publisher.Fate{Kind: publisher.FatePartition, Name: "t/3"})
		var answers []error
		for range 1000 {
			answers = append(answers, leaderless)
		}
		for _, id := range []string{"a", "b", "c"} {
			s.Answer(id, answers...)
		}
		s.Answer("moved", publisher.WithFate(leaderless, publisher.Fate{Kind: publisher.FatePartition, Name: "u/0"}))
		for i, id := range []string{"a", "b", "c", "moved", "good"} {
			topic := "t"
			if id == "moved" {
				topic = "u"
			}
			s.table.insert(int64(i+1), id, id, topic)
		}
		var log bytes.Buffer
		s.log = &log
		stop := s.start()
		time.Sleep(time.Minute)
		note := s.destinations[0].snapshot().Note
		if want := `rows of partition t/3 are held: `; !strings.HasPrefix(note, want) ||
			!strings.Contains(note, "partition 3 has no leader") {
			t.Errorf("the note is %q", note)
		}
		for _, id := range []string{"a", "b", "c"} {
			s.Heal(id)
		}
		s.table.drained(t, 5*time.Second)
		time.Sleep(10 * time.Second)
		if note := s.destinations[0].snapshot().Note; note != "" {
			t.Errorf("afterwards the note is %q", note)
		}
		stop()
		if log := log.String(); strings.Count(log, `"rows of a topic are held"`) != 1 ||
			strings.Count(log, "held no longer") != 1 ||
			strings.Contains(log, "u/0") {
			t.Errorf("the log is\n%s", log)
		}
	})
}

// A topic that is held for another reason than at first is reported again.
func TestAnotherReasonIsLogged(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.Answer("a", publisher.TopologyError("no stream", "no stream"),
			publisher.UnavailableError(publisher.ScopeTopic, "no leader", "no leader"),
			publisher.UnavailableError(publisher.ScopeTopic, "no leader", "no leader"))
		s.table.insert(1, "a", "a", "t")
		var log bytes.Buffer
		s.log = &log
		stop := s.start()
		s.table.drained(t, 10*time.Second)
		stop()
		if log := log.String(); strings.Count(log, "topic is held") != 2 || strings.Count(log, "topic is back") != 1 {
			t.Errorf("the log is\n%s", log)
		}
	})
}

// A partition whose leader is back may hold thousands of keys. When the key that tries it succeeds, the others continue
// too.
func TestKeysOfAPartitionGoOnTogether(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		const keys = 2000
		s.limits = engine.Limits{Batch: 1000, Rows: 4096, Bytes: 64 << 20}
		p := &stuckPublisher{Publisher: s.Broker.Publisher(), answer: func(*publisher.Message) error {
			return publisher.WithFate(publisher.UnavailableError(publisher.ScopeMessage, "no leader", "no leader"),
				publisher.Fate{Kind: publisher.FatePartition, Name: "t/0"})
		}}
		s.destinations[0].Publisher = p
		for i := range 3 * keys {
			key := stuckKey + strconv.Itoa(i%keys)
			s.table.insert(int64(i+1), fmt.Sprintf("%s-%d", key, i/keys), key, "t")
		}
		stop := s.start()
		defer stop()
		time.Sleep(time.Minute)
		p.freed.Store(true)
		s.table.drained(t, 3*time.Second)
		checkOrder(t, s.All())
	})
}
