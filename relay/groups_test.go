package relay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Twelve destinations with columns of their own are relayed by three relays, some destinations by two or all of them,
// while one relay stops and comes again. Each destination gets each row once.
func TestRelaysOfDifferentDestinations(t *testing.T) {
	t.Parallel()
	const destinations, rows = 12, 100
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	var brokers []*publishertest.Broker
	var done []string
	for i := range destinations {
		brokers = append(brokers, publishertest.NewBroker())
		if i > 0 {
			s.Exec(t, fmt.Sprintf("alter table outbox_messages add column at_%d timestamptz", i))
			done = append(done, fmt.Sprintf("at_%d is not null", i))
		}
	}
	relays := func(from, to int) *Relay {
		return replica(t, s, brokers[from], func(c *tested) {
			c.Destinations = nil
			for i := from; i < to; i++ {
				d := &Destination{Name: fmt.Sprint("d", i), Publisher: brokers[i].Publisher()}
				if i > 0 {
					d.Columns = map[string]string{"relayed_at": fmt.Sprint("at_", i)}
				}
				c.Destinations = append(c.Destinations, d)
			}
		})
	}
	inserted := 0
	insert := func() {
		s.Exec(t, insertKeyed, rows)
		inserted += rows
	}
	start(t, relays(0, 8))
	stop := start(t, relays(4, 12))
	insert()
	start(t, relays(6, 12))
	insert()
	stop()
	insert()
	start(t, relays(0, 12))
	insert()
	eventually(t, "everything is relayed", func() bool {
		return pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is not null and "+
			strings.Join(done, " and ")) == inserted
	})
	for i, b := range brokers {
		if n := len(b.All()); n != inserted {
			t.Errorf("destination %d: %d deliveries of %d rows", i, n, inserted)
		}
	}
}
