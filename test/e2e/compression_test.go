package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestKafkaCompression relays with each codec and reads back with another client, franz-go. Every row arrives with its
// key, its payload and its headers, in batches of that codec.
func TestKafkaCompression(t *testing.T) {
	t.Parallel()
	k := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	for codec, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const rows = 300
			topic, outbox := k.topic(t), newTable(t)
			outbox.insert(topic, 0, rows, 20)
			startRelay(t, outbox.env(k.url(), "OUTBOX_KAFKA_COMPRESSION="+name))
			outbox.awaitDrained()
			want := pgtest.Value[[]string](t, outbox.Schema,
				"select array_agg(id::text || ' ' || key || ' ' || payload::text order by id) from outbox_messages")
			var got []string
			for _, r := range k.consume(t, topic, rows) {
				if int(r.Attrs.CompressionType()) != codec {
					t.Fatalf("a record is of a batch with codec %d", r.Attrs.CompressionType())
				}
				headers := map[string]string{}
				for _, h := range r.Headers {
					headers[h.Key] = string(h.Value)
				}
				if headers["type"] != "test" || headers["content-type"] != "application/json" {
					t.Errorf("a record has the headers %v", headers)
				}
				got = append(got, fmt.Sprintf("%s %s %s", headers["message-id"], r.Key, r.Value))
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%d records are not the %d rows", len(got), len(want))
			}
		})
	}
}

// consume reads n records with franz-go.
func (b *kafkaBroker) consume(t testing.TB, topic string, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(strings.TrimPrefix(b.address, "kafka://"), ",")...),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var records []*kgo.Record
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("consumed %d of %d records: %v", len(records), n, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}
