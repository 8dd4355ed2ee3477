package relay

import (
	"strconv"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// A single destination takes the rows that match its patterns, like one of several destinations. Of two relays whose
// destinations divide the rows of the same columns in different ways, one relays, and the other is ready and says why
// it waits. Side by side each would leave half of its rows to the other, which does not take them.
func TestDestinationAloneGoesByItsTopics(t *testing.T) {
	t.Parallel()
	for name, patterns := range map[string][][]string{
		"one relay": {{"order.*"}}, "two relays": {{"order.*"}, {"audit.*"}}, "exclusion": {{"!audit.*", "!nobody.*"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, "create table outbox_messages (id text primary key, key text, topic text not null, payload text, seq "+
				"bigint generated always as identity, "+
				"inserted_at timestamptz default now(), relayed_at timestamptz, attempt int default 1, failed_at timestamptz, "+
				"last_error text, updated_at timestamptz)")
			for i := range 300 {
				n := strconv.Itoa(i)
				s.Exec(t, "insert into outbox_messages (id, key, topic, payload) values ($1, $1, $2, 'x')", n,
					[]string{"order.x/y", "audit.x", "nobody.x"}[i%3])
			}
			var brokers []*publishertest.Broker
			var last func()
			for i, topics := range patterns {
				b := publishertest.NewBroker()
				brokers = append(brokers, b)
				r := replica(t, s, b, func(c *tested) { c.Destinations[0].Topics = topics })
				stop := start(t, r)
				if i > 0 {
					eventually(t, "it says why it waits", func() bool {
						return strings.Contains(noteOf(r, "ownership"), "other destinations in the same columns") && notReady(r) == ""
					})
					last()
				}
				eventually(t, "rows flow", func() bool { return len(b.All()) >= 100 })
				last = stop
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
