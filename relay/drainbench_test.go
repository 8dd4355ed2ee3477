package relay

import (
	"context"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// accepting is a publisher that accepts everything at once.
type accepting struct{}

func (accepting) Publish(_ context.Context, messages []publisher.Message) []error {
	return make([]error, len(messages))
}
func (accepting) Ping(context.Context) error { return nil }
func (accepting) Close() error               { return nil }

// BenchmarkDrain relays rows of 512 bytes from PostgreSQL to a broker that costs nothing. One operation is one row.
func BenchmarkDrain(b *testing.B) {
	s := pgtest.New(b)
	s.Exec(b, `create table outbox_messages (id uuid primary key default gen_random_uuid(), seq bigint generated always as
		identity, topic text not null,
		key text, payload jsonb not null, headers jsonb not null default '{}', attempt integer not null default 1, relayed_at
		timestamptz, failed_at timestamptz,
		last_error text, inserted_at timestamptz not null default now(), updated_at timestamptz not null default now())`)
	s.Exec(b, `create index on outbox_messages (seq) where relayed_at is null and failed_at is null`)
	s.Exec(b, `insert into outbox_messages (topic, key, payload, headers) select 'order.placed', 'key' || i % 1000,
		jsonb_build_object('filler', repeat('x', 480)),
		'{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}' from generate_series(1, $1) i`, b.N)
	s.Exec(b, "analyze outbox_messages")
	r := replica(b, s, publishertest.NewBroker(), func(c *tested) {
		c.Destinations[0].Publisher = accepting{}
		c.BatchSize, c.MaxInFlight, c.MaxInFlightBytes = 1000, 4096, 64<<20
	})
	b.ReportAllocs()
	b.ResetTimer()
	if err := r.Drain(b.Context()); err != nil {
		b.Fatal(err)
	}
}
