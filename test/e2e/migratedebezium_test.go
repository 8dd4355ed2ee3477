package e2e

import (
	"context"
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestMigrateFromDebezium follows docs/migrating.md from Debezium's outbox event router to the relay, and back, while
// rows are written. No row is lost or delivered twice, and each key keeps its order. Without the filter, which
// PostgreSQL 14 does not have, only rows that are committed while both are responsible are delivered twice.
func TestMigrateFromDebezium(t *testing.T) {
	t.Parallel()
	own := newServer(t, nil) // since a slot waits for all transactions of its server
	own.start("wal_level=logical")
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	way := guide(t, "From Debezium's outbox event router")
	for _, filter := range []bool{true, false} {
		t.Run(fmt.Sprintf("filter=%t", filter), func(t *testing.T) {
			outbox := &table{Schema: &pgtest.Schema{URL: hostsURL(own.addr), Name: "public", Pool: own.pool(own.addr)}, t: t}
			defer outbox.Pool.Close()
			outbox.Exec(t, "drop table if exists outbox")
			outbox.Exec(t, debeziumLayout)
			outbox.Exec(t, "create publication dbz_publication for all tables") // as the connector makes it
			ours := uniqueTopic()
			topic := "outbox.event." + ours
			b.create(t, topic)
			outbox.Exec(t, "select pg_create_logical_replication_slot('debezium', 'pgoutput')")
			w := startWriter(t, outbox.Pool, 0, 10, fmt.Sprintf(`insert into outbox (id, aggregatetype, aggregateid, type,
				payload)
				select gen_random_uuid(), '%s', 'k' || i %% 30, 'OrderPlaced', jsonb_build_object('n', i) from
				generate_series($1::int, $2::int) i order by i`, ours))
			debezium := newDebezium(t, own.addr, outbox, b, way)
			old := debezium()
			old.flow()

			way.run(t, outbox, "prepare")
			env := outbox.env(b.url(), way.settings(t, "debezium")...)
			checkServed(t, env)
			if filter {
				way.run(t, outbox, "filter")
			}
			position := way.handOver(t, outbox)
			waits := func() int64 {
				return pgtest.Value[int64](t, outbox.Schema, "select count(*) from outbox where relayed_at is null")
			}
			await(t, "rows wait for the relay", func() bool { return waits() > 100 })
			caughtUp := func() bool {
				return pgtest.Value[bool](t, outbox.Schema, strings.ReplaceAll(way.block(t, "caught up"), "POSITION", position))
			}
			await(t, "Debezium has sent what was before", caughtUp)
			r := startRelayAfter(t, env, old.stop)
			await(t, "the relay relays", func() bool { return r.metric(`rows_relayed_total{destination="default"}`) > "0" })

			if filter {
				way.run(t, outbox, "back")
				await(t, "the relay has nothing left", func() bool { return waits() == 0 })
				r.stop()
				old = debezium()
				old.flow()
				position = way.handOver(t, outbox)
				await(t, "Debezium has sent what was before", caughtUp)
				r = startRelayAfter(t, env, old.stop)
			}
			w.end()
			way.run(t, outbox, "afterwards")
			await(t, "all rows are relayed", func() bool { return waits() == 0 })
			r.stop()
			got := b.received(t, topic)
			for _, d := range got {
				if d.headers["id"] == "" || d.keyless {
					t.Fatalf("message %+v", d)
				}
			}
			duplicates := checkNumbers(t, got, w.rows)
			t.Logf("%d rows, %d duplicates", w.rows, duplicates)
			if filter && duplicates > 0 {
				t.Errorf("%d rows came twice", duplicates)
			}
			byRelay := 0
			for _, d := range got {
				if d.headers["eventType"] == "OrderPlaced" {
					byRelay++
				}
			}
			if byRelay == 0 || byRelay == len(got) {
				t.Errorf("%d of %d messages are the relay's", byRelay, len(got))
			}
		})
	}
}

// startRelayAfter starts a relay after end has ended another process.
func startRelayAfter(t testing.TB, env settings, end func()) *relay {
	t.Helper()
	end()
	r := startRelay(t, env)
	r.awaitReady()
	return r
}

// handOver runs the statements that assign new rows to the relay, and returns what the last of them prints.
func (g way) handOver(t testing.TB, outbox *table) string {
	t.Helper()
	statements := g.statements(t, "hand over")
	conn, err := outbox.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	var position string
	for i, statement := range statements {
		if i < len(statements)-1 {
			_, err = conn.Exec(t.Context(), statement)
		} else {
			err = conn.QueryRow(t.Context(), statement).Scan(&position)
		}
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if _, err := conn.Exec(t.Context(), "reset lock_timeout"); err != nil {
		t.Fatal(err)
	}
	return position
}

// captor is a process that sends the rows of the table from the replication slot.
type captor interface {
	flow() // waits until something has been sent
	stop() // stops it like a connector: what was sent is confirmed
}

// newDebezium returns a function that starts Debezium, which continues where it was stopped. If make debezium has
// obtained the program it is used, otherwise capture takes its place.
func newDebezium(t testing.TB, addr string, outbox *table, b *kafkaBroker, way way) func() captor {
	t.Helper()
	if archives := os.Getenv("TEST_DEBEZIUM"); archives != "" {
		return newConnector(t, archives, addr, outbox, b, way).run
	}
	return func() captor { return startCapture(t, outbox.Pool, b) }
}

// capture replaces Debezium with its outbox event router. It decodes the inserts of a publication from a slot, and
// sends them as the router does with its defaults, with one header less.
type capture struct {
	t      testing.TB
	pool   *pgxpool.Pool
	client *kgo.Client
	sent   chan struct{} // receives after each round that sent something
	end    context.CancelFunc
	done   chan struct{}
}

func startCapture(t testing.TB, pool *pgxpool.Pool, b *kafkaBroker) *capture {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.TrimPrefix(b.url(), "kafka://")))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	c := &capture{t: t, pool: pool, client: client, sent: make(chan struct{}, 1), end: end, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for ctx.Err() == nil {
			if err := c.round(context.WithoutCancel(ctx)); err != nil {
				t.Errorf("capture: %v", err)
				return
			}
		}
	}()
	t.Cleanup(c.stop)
	return c
}

func (c *capture) flow() {
	c.t.Helper()
	select {
	case <-c.sent:
	case <-time.After(patience):
		c.t.Fatal("nothing is captured")
	}
}

func (c *capture) stop() {
	c.end()
	<-c.done
	c.client.Close()
}

// round sends what has been committed since the previous round, and confirms it.
func (c *capture) round(ctx context.Context) error {
	var upTo string
	if err := c.pool.QueryRow(ctx, "select pg_current_wal_lsn()").Scan(&upTo); err != nil {
		return err
	}
	rows, err := c.pool.Query(ctx, `select data from pg_logical_slot_peek_binary_changes('debezium', $1, null,
		'proto_version', '1',
		'publication_names', 'dbz_publication')`, upTo)
	if err != nil {
		return err
	}
	defer rows.Close()
	var records []*kgo.Record
	for rows.Next() {
		var data []byte
		if err := rows.Scan(&data); err != nil {
			return err
		}
		if data[0] != 'I' {
			continue
		}
		v := inserted(data)
		records = append(records, &kgo.Record{
			Topic: "outbox.event." + v[1], Key: []byte(v[2]), Value: []byte(v[4]),
			Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(v[0])}},
		})
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := c.client.ProduceSync(ctx, records...).FirstErr(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if len(records) > 0 {
		select {
		case c.sent <- struct{}{}:
		default:
		}
	}
	_, err = c.pool.Exec(ctx, "select pg_replication_slot_advance('debezium', $1)", upTo)
	return err
}

// inserted returns the columns of a row in pgoutput's message of its insert,
// https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html.
func inserted(data []byte) (values []string) {
	data = data[1+4+1:] // kind, relation, the letter of the new row
	columns := bigendian.BigEndian.Uint16(data)
	data = data[2:]
	for range columns {
		kind := data[0]
		data = data[1:]
		value := ""
		if kind == 't' {
			n := bigendian.BigEndian.Uint32(data)
			value, data = string(data[4:4+n]), data[4+n:]
		}
		values = append(values, value)
	}
	return values
}
