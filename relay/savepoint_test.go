package relay

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// insertRow inserts a row of a key. The block runs in a subtransaction with a number of its own, like a savepoint.
const (
	insertRow   = "insert into outbox_messages (topic, key, payload) values ('t', $1, to_jsonb($2::int))"
	insertBlock = `create function insert_row(of text, n int) returns void language plpgsql as $$
begin
  insert into outbox_messages (topic, key, payload) values ('t', of, to_jsonb(n));
exception when unique_violation then null;
end $$`
	insertMany = "insert into outbox_messages (topic, key, payload) select 't', 'k' || i % 50, to_jsonb(i) from " +
		"generate_series(1, $1::int) i"
)

// transaction is a transaction that a test controls step by step.
type transaction struct {
	t testing.TB
	*pgx.Conn
}

func begin(t testing.TB, s *pgtest.Schema) *transaction {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // rolls back what is left
	x := &transaction{t, conn}
	x.do("begin")
	return x
}

func (x *transaction) do(statement string, args ...any) {
	x.t.Helper()
	if _, err := x.Exec(x.t.Context(), statement, args...); err != nil {
		x.t.Fatalf("%s: %v", statement, err)
	}
}

// payloads returns the payloads that arrived for a key.
func payloads(b *publishertest.Broker, key string) (arrived []string) {
	for _, m := range b.All() {
		if string(m.Key) == key {
			arrived = append(arrived, string(m.Payload))
		}
	}
	return arrived
}

// Rows of a transaction that commits between two pages of a tail scan keep their order. The same holds if they were
// written under savepoints, whose numbers the server does not list.
func TestSavepointsKeepTheOrder(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(x *transaction, n int){
		"plain":     func(x *transaction, n int) { x.do(insertRow, "K", n) },
		"savepoint": func(x *transaction, n int) { x.do("savepoint a"); x.do(insertRow, "K", n); x.do("release a") },
		"savepoint left open": func(x *transaction, n int) {
			x.do("savepoint a")
			x.do(insertRow, "K", n)
		},
		"nested savepoints": func(x *transaction, n int) {
			x.do("savepoint a")
			x.do("savepoint b")
			x.do("savepoint c")
			x.do(insertRow, "K", n)
			x.do("release b")
		},
		"rolled back and released": func(x *transaction, n int) {
			x.do("savepoint a")
			x.do(insertRow, "K", 1000+n)
			x.do("rollback to a")
			x.do(insertRow, "K", n)
			x.do("release a")
		},
		"first plain": func(x *transaction, n int) {
			if n > 1 {
				x.do("savepoint a")
			}
			x.do(insertRow, "K", n)
		},
		"block with exception": func(x *transaction, n int) { x.do("select insert_row('K', $1)", n) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := pgtest.New(t), publishertest.NewBroker()
			s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}), pgx.QueryExecModeSimpleProtocol)
			s.Exec(t, insertBlock)
			x := begin(t, s)
			write(x, 1)
			s.Exec(t, insertMany, 150)
			write(x, 2)
			s.Exec(t, insertMany, 10)
			write(x, 3)
			s.Exec(t, insertMany, 10) // a number after those of the savepoints has ended
			b.Hold()
			start(t, replica(t, s, b, func(c *tested) { c.MaxInFlight = 150 }))
			b.AwaitHeld(t, 2) // the first page is on the wire, and there is no room for the next one
			x.do("commit")
			b.Release()
			eventually(t, "all is relayed", func() bool {
				return pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null") == 0
			})
			if got := payloads(b, "K"); !slices.Equal(got, []string{"1", "2", "3"}) {
				t.Errorf("delivered as %s", got)
			}
		})
	}
}
