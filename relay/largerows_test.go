package relay

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// meteredConn counts the bytes received over a connection.
type meteredConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

// metered returns a pool of the schema, and the number of bytes received over its connections.
func metered(t *testing.T, s *pgtest.Schema) (*pgxpool.Pool, *atomic.Int64) {
	var bytes atomic.Int64
	return s.PoolWith(t, func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return meteredConn{conn, &bytes}, err
		}
	}), &bytes
}

// Of rows that are larger than expected, only those are sent for which there is room, whatever type they are stored as.
// A tail scan that has to leave nearly all of them to the next tail scan, because an older transaction ends in the
// meantime, reads none of these rows.
func TestLargeRowsAreSentOnce(t *testing.T) {
	t.Parallel()
	const rows, size = 60, 1 << 20
	for name, column := range map[string]struct{ kind, storage, value string }{
		"text":             {"text", "external", "repeat(chr(97 + i % 26), $1)"},
		"compressed text":  {"text", "extended", "repeat(chr(97 + i % 26), $1)"},
		"bytea":            {"bytea", "external", "convert_to(repeat('x', $1), 'UTF8')"},
		"json":             {"json", "external", "to_json(repeat('x', $1))"},
		"compressed json":  {"json", "extended", "to_json(repeat('x', $1))"},
		"jsonb":            {"jsonb", "external", "to_jsonb(repeat('x', $1))"},
		"compressed jsonb": {"jsonb", "extended", "to_jsonb(repeat('x', $1))"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := pgtest.New(t), publishertest.NewBroker()
			older := begin(t, s)
			older.do("select pg_current_xact_id()")
			s.Exec(t, "create table outbox_messages (id bigint primary key, topic text not null, key text, payload "+column.kind+
				", relayed_at timestamptz, failed_at timestamptz)")
			s.Exec(t, "alter table outbox_messages alter column payload set storage "+column.storage)
			s.Exec(t,
				"insert into outbox_messages select i, 't', 'k' || i % 5, "+strings.ReplaceAll(column.value, "$1",
					fmt.Sprint(size))+
					" from generate_series(1, "+fmt.Sprint(rows)+") i")
			pool, bytes := metered(t, s)
			r := replica(t, s, b, func(c *tested) {
				c.Pool = pool
				c.BatchSize, c.MaxInFlight, c.MaxInFlightBytes = 1000, 4096, 4<<20
			})
			b.Hold()
			drained := make(chan error, 1)
			go func() { drained <- r.Drain(t.Context()) }()
			b.AwaitHeld(t, 1)
			// From here on, the relay cannot know whether the rows were committed when the tail scan began.
			older.do("commit")
			b.Release()
			if err := <-drained; err != nil {
				t.Fatal(err)
			}
			if got := len(b.All()); got != rows {
				t.Errorf("%d of %d rows delivered", got, rows)
			}
			if sent := bytes.Load(); sent > rows*size*5/4 {
				t.Errorf("%d MiB came for %d", sent>>20, rows*size>>20)
			}
		})
	}
}

// A row that is too large fails without being read, and the other rows of all keys flow.
func TestRowsThatAreTooLargeAreNotRead(t *testing.T) {
	t.Parallel()
	const huge = 4 << 20
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, `create table outbox_messages (id bigint primary key, topic text not null, key text, payload jsonb, headers
		jsonb, tenant text,
		attempt int, last_error text, updated_at timestamptz, relayed_at timestamptz, failed_at timestamptz)`)
	s.Exec(t, `insert into outbox_messages (id, topic, key, payload, headers, tenant) select i, 't', 'k' || i % 5, '{}',
		'{}', 'a' from generate_series(1, 200) i`)
	s.Exec(t, `update outbox_messages set payload = to_jsonb(repeat('x', $1)) where id % 50 = 0`, huge)
	s.Exec(t, `update outbox_messages set headers = jsonb_build_object('h', repeat('x', $1)) where id % 50 = 1`, huge)
	s.Exec(t, `update outbox_messages set topic = repeat('x', $1) where id % 50 = 2`, huge)
	s.Exec(t, `update outbox_messages set key = repeat('x', $1) where id % 50 = 3`, huge)
	s.Exec(t, `update outbox_messages set tenant = repeat('x', $1) where id % 50 = 4`, huge)
	// 26 MB as text
	s.Exec(t, `update outbox_messages set payload = ('[' || repeat('1e131000,', 200) || '1]')::jsonb where id % 50 = 5`)
	pool, bytes := metered(t, s)
	r := replica(t, s, b, func(c *tested) {
		c.Pool, c.MaxRowBytes = pool, 2<<20
		c.Destinations[0].Topic = "{tenant}.{topic}"
	})
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(b.All()); got != 200-24 {
		t.Errorf("%d rows delivered", got)
	}
	if failed := pgtest.Value[int](t, s, "select count(*) from outbox_messages where failed_at is not null and "+
		"last_error like '%MaxRowBytes is 2097152, or % has 1048576 or more: raise%' "+
		"and attempt = 2 and id % 50 < 6"); failed != 24 {
		t.Errorf("%d rows failed: %s", failed,
			pgtest.Value[string](t, s,
				"select coalesce(string_agg(distinct left(last_error, 200), '; '), '') from outbox_messages"))
	}
	if sent := bytes.Load(); sent > 48<<20 { // of more than 130 MiB
		t.Errorf("%d MiB came", sent>>20)
	}
}

// A row that is larger than the limit of what may be in flight is published when almost nothing else is in flight.
func TestRowLargerThanTheLimitGoesAlone(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, "create table outbox_messages (id bigint primary key, topic text not null, key text, payload text, "+
		"relayed_at timestamptz)")
	s.Exec(t, "insert into outbox_messages select i, 't', 'k' || i % 7, repeat('x', case when i % 10 = 0 then 2000000 "+
		"else 20000 end) from generate_series(1, 200) i")
	r := replica(t, s, b, func(c *tested) { c.BatchSize, c.MaxInFlight, c.MaxInFlightBytes = 50, 500, 1<<20 })
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(b.All()); got != 200 {
		t.Errorf("%d of 200 rows delivered", got)
	}
}

// Reads of large rows over a slow line end, since they have minutes.
func TestReadsOverASlowLineEnd(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.limits = engine.Limits{Batch: 1000, Rows: 4096, Bytes: 64 << 20}
		s.table.bytesPerSecond = 128 << 10
		for i := range 80 {
			s.table.insert(int64(i+1), fmt.Sprintf("k%d-%d", i%5, i/5), fmt.Sprintf("k%d", i%5), "t")
			s.table.grow(fmt.Sprintf("k%d-%d", i%5, i/5), 1<<20)
		}
		stop := s.start()
		defer stop()
		s.table.drained(t, 2*time.Hour)
		checkOrder(t, s.All())
	})
}
