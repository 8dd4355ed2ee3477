package relay

import (
	"context"
	"fmt"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// A large row does not wait for the room that unwritable rows take, however large that room is. The large row is
// published when nothing else is in flight, and the rows after it follow.
func TestLargeRowBesideRowsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	const (
		limit  = 1 << 20
		stuck  = 8      // number of stuck rows
		size   = 80_000 // bytes of each stuck row; all of them are more than a quarter of the limit
		larges = 12
		smalls = 1000
	)
	for name, unwritable := range map[string]bool{"locked": false, "unmarkable": true} {
		for _, large := range []int{limit / 2, 2 * limit} {
			t.Run(fmt.Sprintf("%s, %d bytes", name, large), func(t *testing.T) {
				t.Parallel()
				s, b := pgtest.New(t), publishertest.NewBroker()
				s.Exec(t, "create table outbox_messages (id bigint primary key, topic text not null, key text, payload text, "+
					"relayed_at timestamptz)")
				s.Exec(t, "insert into outbox_messages values (0, 't', 'first', '')")
				r := replica(t, s, b, func(c *tested) { c.BatchSize, c.MaxInFlight, c.MaxInFlightBytes = 100, 500, limit })
				tx, err := s.Pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				insert := func() {
					s.Exec(t, "insert into outbox_messages select i, 'stuck', 's' || i, repeat('x', $2::int) from "+
						"generate_series(1, $1::int) i",
						stuck, size)
				}
				relayed := func() int {
					return pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is not null")
				}
				start(t, r)
				eventually(t, "a row is marked", func() bool { return relayed() == 1 })
				if unwritable { // from now on: what is refused from the start is not published, nor what is locked
					s.Exec(t,
						`create function no() returns trigger language plpgsql as $$ begin raise exception using errcode =
							'check_violation'; end $$`)
					s.Exec(t, `create trigger no before update on outbox_messages for each row when (old.topic = 'stuck') execute
						function no()`)
					insert()
				} else {
					b.Hold()
					insert()
					if _, err := tx.Exec(t.Context(), "select from outbox_messages where topic = 'stuck' for update"); err != nil {
						t.Fatal(err)
					}
					b.Release()
				}
				t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // before the schema is dropped
				eventually(t, "rows cannot be written", func() bool { return allOf(r.config.Destinations).Stuck == stuck })
				s.Exec(t, `insert into outbox_messages select 1000 + i, 't', 'k' || i % 50, case when i % $1 = 0 then repeat('x',
					$2::int) else 'x' end from generate_series(1, $3::int) i`,
					smalls/larges, large, smalls)
				eventually(t, "all others are relayed", func() bool { return relayed() == smalls+1 })
				if err := tx.Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
				if unwritable {
					s.Exec(t, "drop trigger no on outbox_messages")
				}
				eventually(t, "everything is relayed", func() bool { return relayed() == smalls+stuck+1 })
				if got := len(b.All()); got != smalls+stuck+1 {
					t.Errorf("%d deliveries of %d rows", got, smalls+stuck+1)
				}
			})
		}
	}
}
