package relay

import (
	"strconv"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// A single destination takes the rows that match its patterns, like one of several destinations. This holds for one relay,
// and for two relays of one table whose patterns do not overlap.
func TestDestinationAloneGoesByItsTopics(t *testing.T) {
	t.Parallel()
	for name, patterns := range map[string][][]string{
		"one relay": {{"order.*"}}, "two relays": {{"order.*"}, {"audit.*"}}, "exclusion": {{"!audit.*", "!nobody.*"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, "create table outbox_messages (id text primary key, key text, topic text not null, payload text, seq bigint generated always as identity, "+
				"inserted_at timestamptz default now(), relayed_at timestamptz, attempt int default 1, failed_at timestamptz, last_error text, updated_at timestamptz)")
			for i := range 300 {
				n := strconv.Itoa(i)
				s.Exec(t, "insert into outbox_messages (id, key, topic, payload) values ($1, $1, $2, 'x')", n,
					[]string{"order.x/y", "audit.x", "nobody.x"}[i%3])
			}
			var brokers []*publishertest.Broker
			for _, topics := range patterns {
				b := publishertest.NewBroker()
				brokers = append(brokers, b)
				start(t, replica(t, s, b, func(c *tested) { c.Destinations[0].Topics = topics }))
			}
			if len(patterns) == 1 {
				eventually(t, "rows flow", func() bool { return len(brokers[0].All()) >= 100 })
			} else {
				eventually(t, "rows flow", func() bool { return len(brokers[0].All()) > 0 && len(brokers[1].All()) > 0 })
			}
			for i, b := range brokers {
				for _, m := range b.All() {
					if want := []string{"order.", "audit."}[i]; !strings.HasPrefix(m.Topic, want) {
						t.Errorf("a row of topic %s went to a destination of %q", m.Topic, patterns[i])
					}
				}
			}
		})
	}
}
