package outbox

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// distant is a connection to a database that is further away by a distance.
type distant struct {
	net.Conn
	distance time.Duration
}

func (c distant) Write(b []byte) (int, error) {
	time.Sleep(c.distance) //nolint:forbidigo // it stands for the network, nothing waits for an event
	return c.Conn.Write(b)
}

// A page says how far away the database is. The time for which the server is busy with it, or waits, does not count.
func TestReadMeasuresTheDistance(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, recommended())
	const away, busy = 50 * time.Millisecond, 500 * time.Millisecond
	table, err := Open(t.Context(), s.PoolWith(t, func(c *pgxpool.Config) {
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return distant{conn, away}, err
		}
	}), Config{Table: messages, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // it is over if the test has come to its end
	if _, err := tx.Exec(t.Context(), "lock table outbox_messages"); err != nil {
		t.Fatal(err)
	}
	released := make(chan error, 1)
	go func() {
		_, err := tx.Exec(t.Context(), `do $$ begin
			while not exists (select from pg_locks where not granted and relation = 'outbox_messages'::regclass) loop
				perform pg_sleep(0.01);
			end loop;
			perform pg_sleep(0.5); end $$`)
		released <- errors.Join(err, tx.Commit(t.Context()))
	}()
	started := time.Now()
	page, err := table.Tail(t.Context(), Query{Most: Most{Rows: 1}})
	took := time.Since(started)
	if err := errors.Join(err, <-released); err != nil {
		t.Fatal(err)
	}
	if page.Distance < away || page.Distance > took-busy {
		t.Errorf("the database is %v away: %v, in a read of %v", away, page.Distance, took)
	}
}
