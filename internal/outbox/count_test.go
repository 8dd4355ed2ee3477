package outbox

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// Rows that are not yet due do not count as backlog, and a row that became due late has not waited since its insert.
// This holds for all types of times. If no row can become due later, nothing is scheduled.
func TestCountsDueRows(t *testing.T) {
	t.Parallel()
	for _, available := range []string{"timestamp", "timestamptz"} {
		for _, inserted := range []string{"timestamp", "timestamptz"} {
			t.Run(available+" after "+inserted, func(t *testing.T) {
				t.Parallel()
				s := pgtest.New(t)
				s.Exec(t, `create table outbox_messages (id int primary key, topic text not null, payload text not null, relayed_at
					timestamptz,
					inserted_at `+inserted+` not null, available_at `+available+`)`)
				s.Exec(t, "create index on outbox_messages (inserted_at) where relayed_at is null")
				table := open(t, s, Config{Table: messages})
				count := func(pending, scheduled int64, least, most float64) {
					t.Helper()
					counts, err := table.Count(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if *counts.Pending != pending || *counts.Scheduled != scheduled || *counts.Oldest < least ||
						*counts.Oldest > most {
						t.Errorf("%d pending, %d scheduled, the first for %v s", *counts.Pending, *counts.Scheduled, *counts.Oldest)
					}
				}
				const utc = "(now() at time zone 'UTC')"
				s.Exec(t, "set timezone = 'UTC'; insert into outbox_messages select n, 't', '', null, "+utc+
					" - interval '3 hours', "+utc+
					" + interval '1 hour' from generate_series(1, 100) n")
				count(0, 100, 0, 0)
				s.Exec(t, "set timezone = 'UTC'; insert into outbox_messages values (101, 't', '', null, "+utc+
					" - interval '2 hours', "+utc+
					" - interval '10 minutes')")
				count(1, 100, 600, 700)
				page, err := table.Tail(t.Context(), Query{Most: Most{Rows: 10, Bytes: 1 << 20}})
				if err != nil || len(page.Rows) != 1 {
					t.Fatalf("%d rows: %v", len(page.Rows), err)
				}
				if late := page.Rows[0].Due.Sub(page.Rows[0].Message.Inserted).Minutes(); late < 109 || late > 111 {
					t.Errorf("due %v minutes after the insert", late)
				}
			})
		}
	}
	s := pgtest.New(t)
	s.Exec(t, recommended())
	s.Exec(t, pgtest.Insert, "t", "{}")
	if counts, err := open(t, s, Config{Table: messages}).Count(t.Context()); err != nil || *counts.Pending != 1 ||
		*counts.Scheduled != 0 {
		t.Errorf("%+v: %v", counts, err)
	}
}
