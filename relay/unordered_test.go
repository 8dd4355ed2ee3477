package relay

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// Rows without an order value precede the low watermark from which recent rows are read. The reconciliation scan finds
// them, also where no row has an order value.
func TestRowsWithoutAnOrderValue(t *testing.T) {
	t.Parallel()
	for name, seq := range map[string]string{"all": "null", "one of them": "7"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := pgtest.New(t), publishertest.NewBroker()
			s.Exec(t, "create table outbox_messages (id bigint primary key, topic text, payload text, relayed_at timestamptz, "+
				"seq bigint)")
			s.Exec(t, "insert into outbox_messages values (1, 't', '', null, "+seq+")")
			r := replica(t, s, b, nil)
			start(t, r)
			b.Await(t, 1)
			// Some seconds later only recent rows are read.
			eventually(t, "the row is marked long since", func() bool {
				return pgtest.Value[bool](t, s,
					"select coalesce(relayed_at < now() - interval '6 seconds', false) from outbox_messages where id = 1")
			})
			s.Exec(t, "insert into outbox_messages values (2, 't', '', null, null)")
			b.Await(t, 2)
		})
	}
}
