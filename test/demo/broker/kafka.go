package broker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
)

const partitions = 4

// kafkaBroker is a topic in a Kafka cluster that runs already.
type kafkaBroker struct {
	url     string
	brokers []string
	topic   string
	client  *kafka.Client
}

func openKafka(ctx context.Context, topic Topic, address string) (_ Broker, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "kafka" || u.Host == "" {
		return nil, errors.New("TEST_KAFKA_URL is not kafka://host:port: run `make demo BROKER=kafka`, or eval \"$(dev/services.sh env)\" first")
	}
	b := &kafkaBroker{url: address, brokers: strings.Split(u.Host, ","), topic: topic.Name}
	b.client = &kafka.Client{Addr: kafka.TCP(b.brokers...), Timeout: 10 * time.Second, Transport: &kafka.Transport{}}
	defer func() {
		if err != nil {
			_ = b.Close(context.WithoutCancel(ctx))
		}
	}()
	config := kafka.TopicConfig{Topic: topic.Name, NumPartitions: partitions, ReplicationFactor: 1}
	if topic.Most > 0 {
		config.ConfigEntries = []kafka.ConfigEntry{{ConfigName: "max.message.bytes", ConfigValue: strconv.Itoa(topic.Most)}}
	}
	response, err := b.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err == nil {
		err = response.Errors[topic.Name]
	}
	if err != nil {
		return nil, fmt.Errorf("create topic: %w", err)
	}
	return b, b.ready(ctx)
}

// ready waits until each partition can be used: those of a new topic open one after the other.
func (b *kafkaBroker) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := b.offsets(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("open topic: %w", err)
		case <-tick.C:
		}
	}
}

func (b *kafkaBroker) offsets(ctx context.Context) error {
	var ask []kafka.OffsetRequest
	for p := range partitions {
		ask = append(ask, kafka.LastOffsetOf(p))
	}
	response, err := b.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{b.topic: ask}})
	if err != nil {
		return err
	}
	for _, p := range response.Topics[b.topic] {
		if p.Error != nil {
			return p.Error
		}
	}
	return nil
}

func (b *kafkaBroker) Name() string { return "Kafka" }
func (b *kafkaBroker) URL() string  { return b.url }

func (b *kafkaBroker) Consume(ctx context.Context, arrived func(ledger.Arrival)) error {
	group, ctx := errgroup.WithContext(ctx)
	for p := range partitions {
		group.Go(func() error { return b.consume(ctx, p, arrived) })
	}
	return group.Wait()
}

func (b *kafkaBroker) consume(ctx context.Context, partition int, arrived func(ledger.Arrival)) error {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: b.brokers, Topic: b.topic, Partition: partition,
		MinBytes: 1, MaxBytes: 10 << 20, MaxWait: time.Second})
	defer reader.Close()
	for {
		m, err := reader.ReadMessage(ctx)
		if err != nil {
			return fmt.Errorf("read partition %d: %w", partition, err)
		}
		a := ledger.Arrival{Key: string(m.Key), Payload: string(m.Value), At: time.Now()}
		for _, h := range m.Headers {
			if h.Key == messageID {
				a.ID = string(h.Value)
			}
		}
		if a.ID == endMark {
			return nil
		}
		arrived(a)
	}
}

func (b *kafkaBroker) End(ctx context.Context) error {
	for p := range partitions {
		response, err := b.client.Produce(ctx, &kafka.ProduceRequest{Topic: b.topic, Partition: p, RequiredAcks: kafka.RequireAll,
			Records: kafka.NewRecordReader(kafka.Record{Headers: []kafka.Header{{Key: messageID, Value: []byte(endMark)}}})})
		if err == nil {
			err = response.Error
		}
		if err != nil {
			return fmt.Errorf("publish end mark: %w", err)
		}
	}
	return nil
}

func (b *kafkaBroker) Close(ctx context.Context) error {
	response, err := b.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{b.topic}})
	if err == nil {
		err = response.Errors[b.topic]
	}
	if transport, ok := b.client.Transport.(*kafka.Transport); ok {
		transport.CloseIdleConnections()
	}
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", b.topic, err)
	}
	return nil
}
