package e2e

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const kafkaPartitions = 6

type kafkaBroker struct {
	address  string
	client   *kafka.Client
	replicas int // of each partition
}

func newKafka(t testing.TB, url string) *kafkaBroker {
	transport := &kafka.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafkaBroker{address: url, replicas: 1,
		client: &kafka.Client{Addr: kafka.TCP(strings.Split(strings.TrimPrefix(url, "kafka://"), ",")...),
			Transport: transport, Timeout: 20 * time.Second}}
}

func (*kafkaBroker) name() string  { return "kafka" }
func (b *kafkaBroker) url() string { return b.address }

func (b *kafkaBroker) topic(t testing.TB) string {
	t.Helper()
	name := uniqueTopic()
	b.create(t, name)
	return name
}

func (b *kafkaBroker) create(t testing.TB, topic string) { b.createWith(t, topic) }

func (b *kafkaBroker) createWith(t testing.TB, topic string, entries ...kafka.ConfigEntry) {
	t.Helper()
	response, err := b.client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: topic, NumPartitions: kafkaPartitions, ReplicationFactor: b.replicas, ConfigEntries: entries}}})
	if err == nil {
		err = response.Errors[topic]
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", topic, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = b.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}}) // its broker may be gone
	})
	await(t, "the partitions of "+topic+" have leaders", func() bool {
		_, err := b.ends(t.Context(), topic)
		return err == nil
	})
}

// tryTime is how long a broker that has just started may take to answer a client that tries it.
const tryTime = time.Second

func (b *kafkaBroker) try(t testing.TB, topic string) error {
	ctx, cancel := context.WithTimeout(t.Context(), tryTime)
	defer cancel()
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: b.client.Addr, Transport: transport}
	response, err := client.Produce(ctx, &kafka.ProduceRequest{Topic: topic, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes(nil)})})
	if err != nil {
		return err
	}
	return response.Error
}

// ends returns the offset behind the last record of each partition.
func (b *kafkaBroker) ends(ctx context.Context, topic string) ([]int64, error) {
	var requests []kafka.OffsetRequest
	for partition := range kafkaPartitions {
		requests = append(requests, kafka.LastOffsetOf(partition))
	}
	response, err := b.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: requests}})
	if err != nil {
		return nil, err
	}
	ends := make([]int64, kafkaPartitions)
	if len(response.Topics[topic]) != kafkaPartitions {
		return nil, errors.New("partitions are missing")
	}
	for _, p := range response.Topics[topic] {
		if p.Error != nil {
			return nil, p.Error
		}
		ends[p.Partition] = p.LastOffset
	}
	return ends, nil
}

func (b *kafkaBroker) received(t testing.TB, topic string) []delivery {
	t.Helper()
	ends, err := b.ends(t.Context(), topic)
	if err != nil {
		t.Fatalf("ends of %s: %v", topic, err)
	}
	var all []delivery
	for partition, end := range ends {
		for offset := int64(0); offset < end; {
			response, err := b.client.Fetch(t.Context(), &kafka.FetchRequest{Topic: topic, Partition: partition, Offset: offset,
				MinBytes: 1, MaxBytes: 16 << 20, MaxWait: time.Second})
			if err == nil {
				err = response.Error
			}
			if err != nil {
				t.Fatalf("fetch from %s/%d at %d: %v", topic, partition, offset, err)
			}
			for {
				record, err := response.Records.ReadRecord()
				if errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("read record of %s/%d: %v", topic, partition, err)
				}
				if record.Offset >= offset {
					all = append(all, kafkaDelivery(t, topic, partition, record))
					offset = record.Offset + 1
				}
			}
		}
	}
	return all
}

func kafkaDelivery(t testing.TB, topic string, partition int, record *kafka.Record) delivery {
	t.Helper()
	d := delivery{topic: topic, partition: partition, timestamp: record.Time, headers: map[string]string{},
		keyless: record.Key == nil, null: record.Value == nil}
	for _, h := range record.Headers {
		if h.Key == "message-id" {
			d.id = string(h.Value)
			continue
		}
		d.headers[h.Key] = string(h.Value)
	}
	d.key, d.body = text(t, record.Key), text(t, record.Value)
	return d
}

func text(t testing.TB, b protocol.Bytes) string {
	t.Helper()
	content, err := protocol.ReadAll(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
