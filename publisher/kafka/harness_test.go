package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

func TestPublisher(t *testing.T) {
	t.Parallel()
	publishertest.Run(t, newHarness(t))
}

// A harness works on the real broker of TEST_KAFKA_URL.
type harness struct {
	brokers []string
	client  *kafkago.Client
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	u, err := url.Parse(services.Endpoint(t, "TEST_KAFKA_URL"))
	if err != nil || u.Host == "" {
		t.Fatalf("TEST_KAFKA_URL is not kafka://host:port: %v", err)
	}
	h := &harness{brokers: strings.Split(u.Host, ",")}
	h.client = h.newClient(t)
	return h
}

// newClient returns a client that has not cached any topic yet.
func (h *harness) newClient(t testing.TB) *kafkago.Client {
	transport := &kafkago.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafkago.Client{Addr: kafkago.TCP(h.brokers...), Transport: transport, Timeout: 20 * time.Second}
}

func (h *harness) Open(t *testing.T, network *publishertest.Network) publisher.Publisher {
	return h.open(t, network)
}

func (h *harness) open(t testing.TB, network *publishertest.Network) *Publisher {
	t.Helper()
	p := New(Config{Brokers: h.brokers, Dial: network.Dial, ClientID: "test", Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func (h *harness) Topic(t *testing.T) string { return h.topic(t, 3) }

// topic creates a topic and waits until each of its partitions can be written to.
func (h *harness) topic(t testing.TB, partitions int, settings ...kafkago.ConfigEntry) string {
	t.Helper()
	name := h.unknown()
	h.create(t, name, partitions, settings...)
	h.awaitLeaders(t, name, partitions)
	return name
}

func (h *harness) Create(t *testing.T, topic string) { h.create(t, topic, 3) }

func (h *harness) create(t testing.TB, name string, partitions int, settings ...kafkago.ConfigEntry) {
	t.Helper()
	if !slices.ContainsFunc(settings, func(s kafkago.ConfigEntry) bool { return s.ConfigName == "retention.ms" }) {
		// Half a minute after its start, a broker deletes records that are as old as some of the suite's.
		settings = append(settings, kafkago.ConfigEntry{ConfigName: "retention.ms", ConfigValue: "-1"})
	}
	response, err := h.client.CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{
		{Topic: name, NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: settings},
	}})
	if err == nil {
		err = response.Errors[name]
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	t.Cleanup(func() { h.delete(t, name) })
}

func (h *harness) delete(t testing.TB, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := h.client.DeleteTopics(ctx, &kafkago.DeleteTopicsRequest{Topics: []string{name}}); err != nil {
		t.Errorf("delete topic %s: %v", name, err)
	}
}

// awaitLeaders polls, because a new topic's partitions become available one after the other.
func (h *harness) awaitLeaders(t testing.TB, name string, partitions int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := h.ends(t.Context(), name, partitions); err == nil {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("topic %s is not writable: %v", name, err)
		}
		<-tick.C
	}
}

func (h *harness) Unknown(*testing.T) string { return h.unknown() }

func (h *harness) unknown() string {
	return "kafka-test-" + strings.ToLower(rand.Text())
}

func (h *harness) Illegal() []string {
	return []string{"", ".", "..", "a b", "a/b", "größe", "a\nb", strings.Repeat("a", 250)}
}

func (h *harness) TooLarge() int { return 2 << 20 }

func (h *harness) Received(t *testing.T, topic string, n int) []publisher.Message {
	return h.received(t, topic, n)
}

// received waits for at least n records and returns all records.
func (h *harness) received(t testing.TB, topic string, n int) []publisher.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	partitions := h.partitions(t, topic)
	total := int64(0)
	for {
		ends, err := h.ends(ctx, topic, partitions)
		if err == nil {
			total = 0
		}
		for _, end := range ends {
			total += end
		}
		if err == nil && total >= int64(n) {
			var all []publisher.Message
			for partition, end := range ends {
				all = append(all, h.read(t, topic, partition, end)...)
			}
			return all
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("topic %s holds %d messages, not %d: %v", topic, total, n, err)
		}
	}
}

func (h *harness) partitions(t testing.TB, topic string) int {
	t.Helper()
	response, err := h.newClient(t).Metadata(t.Context(), &kafkago.MetadataRequest{Topics: []string{topic}})
	if err == nil {
		err = response.Topics[0].Error
	}
	if err != nil {
		t.Fatalf("metadata of %s: %v", topic, err)
	}
	return len(response.Topics[0].Partitions)
}

// ends returns the log end offset of each partition. A call of kafka-go that is made at a bad moment may wait for ever,
// so each call has its own time limit.
func (h *harness) ends(ctx context.Context, topic string, partitions int) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var requests []kafkago.OffsetRequest
	for i := range partitions {
		requests = append(requests, kafkago.LastOffsetOf(i))
	}
	response, err := h.client.ListOffsets(ctx,
		&kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{topic: requests}})
	if err != nil {
		return nil, err
	}
	if len(response.Topics[topic]) != partitions {
		return nil, errors.New("partitions are missing")
	}
	ends := make([]int64, partitions)
	for _, p := range response.Topics[topic] {
		if p.Error != nil {
			return nil, p.Error
		}
		ends[p.Partition] = p.LastOffset
	}
	return ends, nil
}

// read returns the partition's records up to end.
func (h *harness) read(t testing.TB, topic string, partition int, end int64) []publisher.Message {
	t.Helper()
	var all []publisher.Message
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for offset := int64(0); offset < end; {
		response, err := h.client.Fetch(t.Context(), &kafkago.FetchRequest{
			Topic: topic, Partition: partition, Offset: offset, MinBytes: 1,
			MaxBytes: 8 << 20, MaxWait: time.Second,
		})
		if err == nil {
			err = response.Error
		}
		if errors.Is(err, kafkago.OffsetOutOfRange) && time.Now().Before(deadline) {
			<-tick.C // under load, a broker lists the end of a new partition before the partition can be fetched
			continue
		}
		if err != nil {
			t.Fatalf("fetch %s/%d: %v", topic, partition, err)
		}
		for {
			record, err := response.Records.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("read %s/%d: %v", topic, partition, err)
			}
			if record.Offset >= offset {
				all = append(all, messageOf(t, topic, record))
				offset = record.Offset + 1
			}
		}
	}
	return all
}

func messageOf(t testing.TB, topic string, record *protocol.Record) publisher.Message {
	t.Helper()
	m := publisher.Message{
		Topic: topic, Key: bytesOf(t, record.Key), Payload: bytesOf(t, record.Value),
		Inserted: record.Time,
	}
	for _, header := range record.Headers {
		m.Headers = append(m.Headers, publisher.Header{Name: header.Key, Value: string(header.Value)})
	}
	m.ID, _ = m.Header(publisher.HeaderMessageID)
	m.Type, _ = m.Header(publisher.HeaderContentType)
	return m
}

func bytesOf(t testing.TB, b protocol.Bytes) []byte {
	t.Helper()
	all, err := protocol.ReadAll(b)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// refreshed asks for topics, and returns why one of them was not learned.
func (c *cluster) refreshed(t *testing.T, names []string) error {
	for _, learned := range c.refresh(t.Context(), names) {
		if learned.name == "" {
			return learned.err
		}
	}
	return nil
}
