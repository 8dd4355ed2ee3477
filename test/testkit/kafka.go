package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Kafka is a Kafka cluster.
type Kafka struct {
	Client    *kafka.Client
	transport *kafka.Transport
}

var _ Broker = (*Kafka)(nil)

// OpenKafka makes a client of a cluster. It connects when it is used.
func OpenKafka(addresses ...string) *Kafka {
	transport := &kafka.Transport{}
	return &Kafka{
		transport: transport,
		Client:    &kafka.Client{Addr: kafka.TCP(addresses...), Transport: transport, Timeout: 30 * time.Second},
	}
}

// Create is as in [Broker].
func (k *Kafka) Create(ctx context.Context, topic Topic) error {
	partitions := max(topic.Partitions, 1)
	config := kafka.TopicConfig{Topic: topic.Name, NumPartitions: partitions, ReplicationFactor: max(topic.Replicas, 1)}
	if len(topic.Nodes) > 0 {
		config.NumPartitions, config.ReplicationFactor = -1, -1
	}
	for i, node := range topic.Nodes {
		config.ReplicaAssignments = append(config.ReplicaAssignments,
			kafka.ReplicaAssignment{Partition: i, Replicas: []int{node}})
	}
	for name, value := range topic.Configs {
		config.ConfigEntries = append(config.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	if topic.Most > 0 {
		config.ConfigEntries = append(config.ConfigEntries, kafka.ConfigEntry{
			ConfigName:  "max.message.bytes",
			ConfigValue: strconv.Itoa(topic.Most),
		})
	}
	err := untilLed(ctx, func() error {
		response, err := k.Client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
		if err == nil {
			err = response.Errors[topic.Name]
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var last error
	// The partitions of a new topic open one after the other.
	err = Until(ctx, 20*time.Millisecond, func() (bool, error) {
		var ends []int64
		ends, last = k.Ends(ctx, topic.Name)
		return last == nil && len(ends) == partitions, nil
	})
	if err != nil {
		return fmt.Errorf("open topic %s: %w", topic.Name, errors.Join(err, last))
	}
	return nil
}

// Remove is as in [Broker].
func (k *Kafka) Remove(ctx context.Context, topic string) error {
	err := untilLed(ctx, func() error {
		response, err := k.Client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
		if err == nil {
			err = response.Errors[topic]
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	return nil
}

// Ends returns the offset after the last record of each partition.
func (k *Kafka) Ends(ctx context.Context, topic string) (ends []int64, err error) {
	err = untilLed(ctx, func() error {
		ends, err = k.ends(ctx, topic)
		return err
	})
	return ends, err
}

// untilLed repeats a request until a broker takes it: one that has a controller, or leads the partition, as the library
// knows it. A broker that has just started, or that a busy machine has kept from answering its controller, is of no use
// for a moment, and the library remembers that for seconds. Its connections from before a restart have ended.
func untilLed(ctx context.Context, request func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := request()
		switch {
		case errors.Is(err, kafka.BrokerNotAvailable), errors.Is(err, kafka.LeaderNotAvailable),
			errors.Is(err, kafka.NotLeaderForPartition), errors.Is(err, io.ErrUnexpectedEOF):
		default:
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (k *Kafka) ends(ctx context.Context, topic string) ([]int64, error) {
	metadata, err := k.Client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return nil, err
	}
	if len(metadata.Topics) != 1 || metadata.Topics[0].Error != nil {
		return nil, errors.Join(kafka.UnknownTopicOrPartition, metadata.Topics[0].Error)
	}
	var requests []kafka.OffsetRequest
	for _, p := range metadata.Topics[0].Partitions {
		requests = append(requests, kafka.LastOffsetOf(p.ID))
	}
	response, err := k.Client.ListOffsets(ctx,
		&kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: requests}})
	if err != nil {
		return nil, err
	}
	ends := make([]int64, len(requests))
	if len(response.Topics[topic]) != len(requests) {
		return nil, kafka.UnknownTopicOrPartition
	}
	for _, p := range response.Topics[topic] {
		if p.Error != nil {
			return nil, p.Error
		}
		ends[p.Partition] = p.LastOffset
	}
	return ends, nil
}

// Count is as in [Broker].
func (k *Kafka) Count(ctx context.Context, topic string) (total int, err error) {
	ends, err := k.Ends(ctx, topic)
	for _, end := range ends {
		total += int(end)
	}
	return total, err
}

// Consume is as in [Broker].
func (k *Kafka) Consume(ctx context.Context, topic string, receive func(Message)) error {
	ends, err := k.Ends(ctx, topic)
	if err != nil {
		return fmt.Errorf("find the partitions of %s: %w", topic, err)
	}
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, len(ends))
	for partition := range ends {
		go func() {
			var err error
			for next := int64(0); err == nil; {
				err = k.fetch(consuming, topic, partition, &next, receive)
			}
			failed <- err
			stop() // the others
		}()
	}
	first := <-failed
	for range len(ends) - 1 {
		<-failed //nolint:errcheck // those that were stopped
	}
	if ctx.Err() == nil {
		return first
	}
	return nil
}

// Read is as in [Broker].
func (k *Kafka) Read(ctx context.Context, topic string) (all []Message, err error) {
	ends, err := k.Ends(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("find the ends of %s: %w", topic, err)
	}
	for partition, end := range ends {
		for next := int64(0); next < end; {
			if err := k.fetch(ctx, topic, partition, &next, func(m Message) { all = append(all, m) }); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// fetch reads the records that one request returns from a partition, beginning at next, and advances next.
func (k *Kafka) fetch(ctx context.Context, topic string, partition int, next *int64, receive func(Message)) error {
	response, err := k.Client.Fetch(ctx, &kafka.FetchRequest{
		Topic: topic, Partition: partition, Offset: *next,
		MinBytes: 1, MaxBytes: 16 << 20, MaxWait: 500 * time.Millisecond,
	})
	if err == nil {
		err = response.Error
	}
	for err == nil {
		var record *kafka.Record
		// a batch is returned whole
		if record, err = response.Records.ReadRecord(); err != nil || record.Offset < *next {
			continue
		}
		*next = record.Offset + 1
		var m Message
		if m, err = messageOf(record); err == nil {
			m.Topic, m.Partition = topic, partition
			receive(m)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("fetch from %s/%d at %d: %w", topic, partition, *next, err)
}

func messageOf(record *kafka.Record) (Message, error) {
	m := Message{Offset: record.Offset, Time: record.Time, Headers: map[string]string{}, Null: record.Value == nil}
	for _, h := range record.Headers {
		m.header(h.Key, string(h.Value))
	}
	key, err := protocol.ReadAll(record.Key)
	if err != nil {
		return m, err
	}
	m.Key, m.Keyless = string(key), record.Key == nil
	m.Body, err = protocol.ReadAll(record.Value)
	return m, err
}

// Publish is as in [Broker].
func (k *Kafka) Publish(ctx context.Context, topic string, m Message) error {
	err := untilLed(ctx, func() error {
		record := kafka.Record{Value: kafka.NewBytes(m.Body)}
		if m.ID != "" {
			record.Headers = []kafka.Header{{Key: headerID, Value: []byte(m.ID)}}
		}
		response, err := k.Client.Produce(ctx, &kafka.ProduceRequest{
			Topic: topic, Partition: m.Partition, RequiredAcks: kafka.RequireAll,
			Records: kafka.NewRecordReader(record),
		})
		if err == nil {
			err = response.Error
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// Close is as in [Broker].
func (k *Kafka) Close() { k.transport.CloseIdleConnections() }
