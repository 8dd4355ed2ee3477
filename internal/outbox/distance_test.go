package outbox

import (
	"context"
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

// A page says how far away the database is. It does not matter to that how long the server takes for the page.
func TestReadMeasuresTheDistance(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, recommended())
	const distance = 50 * time.Millisecond
	for _, test := range []struct{ distance, least time.Duration }{{0, 1}, {distance, distance}} {
		pool := s.PoolWith(t, func(c *pgxpool.Config) {
			dial := c.ConnConfig.DialFunc
			c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				return distant{conn, test.distance}, err
			}
		})
		table, err := Open(t.Context(), pool, Config{Table: messages, Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		page, err := table.Tail(t.Context(), TailQuery{Most: Most{Rows: 1}})
		if took := time.Since(started); err != nil || page.Distance < test.least || page.Distance > took/distanceTries {
			t.Errorf("%v away: %v, %v, in a read of %v", test.distance, page.Distance, err, took)
		}
		if again, err := table.Tail(t.Context(), TailQuery{Most: Most{Rows: 1}}); err != nil || again.Distance != page.Distance {
			t.Errorf("%v away: %v in the next read, %v", test.distance, again.Distance, err)
		}
	}
}
