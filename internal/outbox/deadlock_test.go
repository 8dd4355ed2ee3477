package outbox

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A migration that locks the table in share mode, as CREATE INDEX does, and alters it in the same transaction, is never
// ended by a deadlock with the relay: the server ends the migration at once if the relay holds a weaker lock on the
// table and waits for the one that it needs to write.
func TestMigrationsAreNoVictims(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{"mark": {}, "delete": {Delete: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, recommended())
			s.Exec(t, `insert into outbox_messages (topic, payload) select 't', '{}' from generate_series(1, 20)`)
			config.Table = sql.Table{Schema: s.Name, Name: "outbox_messages"}
			table := open(t, s, config)
			rows := tail(t, table, Query{}).Rows
			ctx, stop := context.WithCancel(t.Context())
			var relays sync.WaitGroup
			relays.Go(func() {
				for ctx.Err() == nil {
					_, _ = settleFree(ctx, table, []*Row{&rows[0]})
				}
			})
			relays.Go(func() {
				for ctx.Err() == nil {
					_, _, _ = refuse(ctx, table, []Refusal{refusal(rows[1].Identity(), 77, "x")})
				}
			})
			relays.Go(func() {
				for ctx.Err() == nil {
					_, _ = table.Rehearse(ctx, []*Row{&rows[2], &rows[3], &rows[4], &rows[5]})
				}
			})
			deadlocks := 0
			for range 150 {
				_, err := s.Pool.Exec(t.Context(), "begin; lock table outbox_messages in share mode; select pg_sleep(0.005); "+
					"alter table outbox_messages add column extra int; alter table outbox_messages drop column extra; commit",
					pgx.QueryExecModeSimpleProtocol)
				if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "40P01" {
					deadlocks++
				} else if err != nil {
					t.Fatal(err)
				}
			}
			stop()
			relays.Wait()
			if deadlocks > 0 {
				t.Errorf("%d of 150 migrations were ended by a deadlock", deadlocks)
			}
		})
	}
}
