package relay

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A table that is changed while rows are on the wire is opened again, even if the marks or refusals of these rows can
// never be written with the old statements. These rows are published again.
func TestTableChangesBeforeAWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused bool
		ddl     string
	}{
		"refusals, a column goes": {true, "alter table outbox_messages drop column last_error"},
		"refusals, its type changes": {
			true,
			"alter table outbox_messages alter column id drop default, alter column id type text",
		},
		"marks, its type changes": {
			false,
			"alter table outbox_messages alter column id drop default, alter column id type text",
		},
	} {
		for _, rows := range []int{1, 300} {
			t.Run(fmt.Sprintf("%s/%d", name, rows), func(t *testing.T) {
				t.Parallel()
				s, b := pgtest.New(t), publishertest.NewBroker()
				s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
				s.Exec(t, `insert into outbox_messages (topic, key, payload) select 't', 'k' || i % 5, '1' from generate_series(1,
					$1::int) i`, rows)
				found, err := s.Pool.Query(t.Context(), "select id::text from outbox_messages")
				if err != nil {
					t.Fatal(err)
				}
				ids, err := pgx.CollectRows(found, pgx.RowTo[string])
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range ids {
					if c.refused {
						b.Poison(id)
					}
				}
				b.Hold()
				start(t, replica(t, s, b, nil))
				b.AwaitHeld(t, 1)
				s.Exec(t, c.ddl)
				b.Release()
				s.Exec(t, `insert into outbox_messages (id, topic, payload) values (gen_random_uuid(), 't', '2')`)
				eventually(t, "everything is relayed or has failed", func() bool {
					return pgtest.Value[bool](t, s,
						"select count(*) = 0 from outbox_messages where relayed_at is null and failed_at is null")
				})
			})
		}
	}
}

// The table goes while the control connection is lost. The database is then not said to be away: it answers that the
// table is not there.
func TestTableGoesWithTheControlConnection(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	config, err := pgx.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = s.Name
	r := replica(t, s, publishertest.NewBroker(), func(c *tested) {
		c.connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
	})
	start(t, r)
	eventually(t, "everything is owned", func() bool { return owned(r) == 16 })
	s.Exec(t, fmt.Sprintf(`do $$ begin
		alter table outbox_messages rename to other;
		perform pg_terminate_backend(pid) from pg_stat_activity where application_name = '%s';
	end $$`, s.Name))
	eventually(t, "only the table is missing", func() bool {
		var missing []string
		for _, c := range r.Ready() {
			if c.Err != nil {
				missing = append(missing, c.Name)
			}
		}
		return slices.Equal(missing, []string{"table"})
	})
}
