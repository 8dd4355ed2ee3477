package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

type kafkaBroker struct {
	client    *kafka.Client
	transport *kafka.Transport
}

func newKafka(address string) *kafkaBroker {
	transport := &kafka.Transport{}
	return &kafkaBroker{transport: transport, client: &kafka.Client{
		Addr: kafka.TCP(strings.Split(strings.TrimPrefix(address, "kafka://"), ",")...), Transport: transport, Timeout: 30 * time.Second}}
}

func (b *kafkaBroker) create(ctx context.Context, topic string) error {
	response, err := b.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}}})
	if err != nil {
		return err
	}
	if err := response.Errors[topic]; err != nil {
		return err
	}
	// The partitions of a new topic open one after the other.
	return until(ctx, 20*time.Millisecond, func() (bool, error) {
		_, err := b.count(ctx, topic)
		return err == nil, nil
	})
}

func (b *kafkaBroker) remove(ctx context.Context, topic string) error {
	_, err := b.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	return err
}

func (b *kafkaBroker) count(ctx context.Context, topic string) (int, error) {
	var requests []kafka.OffsetRequest
	for n := range partitions {
		requests = append(requests, kafka.LastOffsetOf(n))
	}
	response, err := b.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: requests}})
	if err != nil {
		return 0, err
	}
	if len(response.Topics[topic]) != partitions {
		return 0, kafka.UnknownTopicOrPartition
	}
	total := 0
	for _, part := range response.Topics[topic] {
		if part.Error != nil {
			return 0, part.Error
		}
		total += int(part.LastOffset)
	}
	return total, nil
}

func (b *kafkaBroker) consume(ctx context.Context, topic string, receive func([]byte)) error {
	failures := make(chan error, partitions)
	for n := range partitions {
		go func() { failures <- b.consumePartition(ctx, topic, n, receive) }()
	}
	var first error
	for range partitions {
		if err := <-failures; err != nil && first == nil && ctx.Err() == nil {
			first = fmt.Errorf("consume: %w", err)
		}
	}
	return first
}

func (b *kafkaBroker) consumePartition(ctx context.Context, topic string, partition int, receive func([]byte)) error {
	var buffer bytes.Buffer
	for next := int64(0); ; {
		response, err := b.client.Fetch(ctx, &kafka.FetchRequest{Topic: topic, Partition: partition, Offset: next,
			MinBytes: 1, MaxBytes: 8 << 20, MaxWait: 500 * time.Millisecond})
		if err == nil {
			err = response.Error
		}
		if err != nil {
			return err
		}
		for {
			record, err := response.Records.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if record.Offset < next { // a batch comes whole
				continue
			}
			next = record.Offset + 1
			buffer.Reset()
			if _, err := buffer.ReadFrom(record.Value); err != nil {
				return err
			}
			receive(buffer.Bytes())
		}
	}
}

func (b *kafkaBroker) publish(ctx context.Context, topic string, body []byte) error {
	response, err := b.client.Produce(ctx, &kafka.ProduceRequest{Topic: topic, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes(body)})})
	if err != nil {
		return err
	}
	return response.Error
}

func (b *kafkaBroker) close() { b.transport.CloseIdleConnections() }
