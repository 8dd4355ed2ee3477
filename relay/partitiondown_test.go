package relay

import (
	"fmt"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// One partition of twelve has no leader. The rows of the other partitions are relayed while a backlog of thousands of
// keys waits, with an index by key and without one. The waiting rows are retried throughout, at a bounded cost.
func TestRowsFlowBesideADeadPartition(t *testing.T) {
	t.Parallel()
	const rows, partitions = 24_000, 12
	for name, index := range map[string]string{
		"table order": "",
		"by key":      "create index on outbox_messages (key, seq, id) where relayed_at is null and failed_at is null",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := pgtest.New(t), publishertest.NewBroker()
			s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
			if index != "" {
				s.Exec(t, index)
			}
			s.Exec(t, fmt.Sprintf(`insert into outbox_messages (topic, key, payload)
				select 't', case when i %% %d = 0 then '%s' else 'k' end || i, jsonb_build_object('n', i) from generate_series(1,
				%d) i`, partitions, stuckKey, rows))
			p := &stuckPublisher{Publisher: b.Publisher(), answer: func(*publisher.Message) error {
				return publisher.UnavailableError(publisher.ScopeMessage, "no leader", "no leader")
			}}
			start(t, replica(t, s, b, func(c *tested) {
				c.BatchSize, c.MaxInFlight, c.MaxInFlightBytes = 1000, 4096, 64<<20
				c.Destinations[0].Publisher = p
			}))
			b.Await(t, rows-rows/partitions)
			stepped := pgtest.Value[int](t, s,
				`select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables where relid =
					'outbox_messages'::regclass`)
			if stepped > 200*rows {
				t.Errorf("the database has stepped over %d rows to relay %d of them", stepped, rows)
			}
			p.freed.Store(true)
			b.Await(t, rows)
		})
	}
}
