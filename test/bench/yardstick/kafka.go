package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
)

// kafkaPublisher sends one idempotent request for each batch, which assumes that one broker leads every
// partition. It encodes record batches itself, with a producer id and a sequence for each partition.
type kafkaPublisher struct {
	transport  *kafka.Transport
	address    string
	balancer   kafka.Murmur2Balancer
	topic      string
	partitions []int
	producer   *kafka.ProducerSession
	sequence   []int32
	groups     [][]*message
	buffers    [][]byte
}

func newKafka(ctx context.Context, address, topic string, partitions int) (*kafkaPublisher, error) {
	p := &kafkaPublisher{
		transport: &kafka.Transport{MetadataTTL: time.Minute, MetadataTopics: []string{topic}}, address: address,
		topic:    topic,
		sequence: make([]int32, partitions), groups: make([][]*message, partitions),
		buffers: make([][]byte, partitions),
	}
	for i := range partitions {
		p.partitions = append(p.partitions, i)
	}
	client := &kafka.Client{Addr: kafka.TCP(strings.Split(address, ",")...), Transport: p.transport}
	// A broker that has just started answers that it is still loading, until it has a block of producer ids.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for p.producer == nil {
		response, err := client.InitProducerID(ctx, &kafka.InitProducerIDRequest{ProducerID: -1, ProducerEpoch: -1})
		switch {
		case err != nil:
			return nil, err
		case errors.Is(response.Error, kafka.GroupLoadInProgress):
			<-tick.C
		case response.Error != nil:
			return nil, fmt.Errorf("init producer id: %w", response.Error)
		default:
			p.producer = response.Producer
		}
	}
	return p, nil
}

func (p *kafkaPublisher) publish(ctx context.Context, batch []message) error {
	for i := range p.groups {
		p.groups[i] = p.groups[i][:0]
	}
	for i := range batch {
		n := p.balancer.Balance(kafka.Message{Key: []byte(batch[i].key)}, p.partitions...)
		p.groups[n] = append(p.groups[n], &batch[i])
	}
	topic := rawproduce.RequestTopic{Topic: p.topic}
	for n, group := range p.groups {
		if len(group) == 0 {
			continue
		}
		p.buffers[n] = appendRecordBatch(p.buffers[n][:0], group, p.producer, p.sequence[n])
		topic.Partitions = append(topic.Partitions, rawproduce.RequestPartition{
			Partition: int32(n), RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(p.buffers[n])},
		})
	}
	response, err := p.transport.RoundTrip(ctx, kafka.TCP(p.address),
		&rawproduce.Request{Acks: -1, Timeout: 10_000, Topics: []rawproduce.RequestTopic{topic}})
	if err != nil {
		return err
	}
	produced, ok := response.(*produce.Response)
	if !ok || len(produced.Topics) != 1 {
		return fmt.Errorf("unexpected answer %T", response)
	}
	for _, part := range produced.Topics[0].Partitions {
		if part.ErrorCode != 0 {
			return fmt.Errorf("partition %d: %w", part.Partition, kafka.Error(part.ErrorCode))
		}
		p.sequence[part.Partition] += int32(len(p.groups[part.Partition]))
	}
	return nil
}

func (p *kafkaPublisher) close() { p.transport.CloseIdleConnections() }

// appendRecordBatch appends a size prefix and one uncompressed record batch (format version 2).
func appendRecordBatch(b []byte, group []*message, producer *kafka.ProducerSession, sequence int32) []byte {
	const sizeAt, lengthAt, crcAt, attributesAt = 0, 12, 21, 25
	now := uint64(time.Now().UnixMilli())
	be := binary.BigEndian
	b = append(b, 0, 0, 0, 0)                    // size of everything that follows
	b = be.AppendUint64(b, 0)                    // base offset, assigned by the broker
	b = append(b, 0, 0, 0, 0)                    // length of what follows
	b = be.AppendUint32(b, 0xffffffff)           // partition leader epoch
	b = append(b, 2)                             // magic
	b = append(b, 0, 0, 0, 0)                    // crc32c of what follows
	b = append(b, 0, 0)                          // attributes: uncompressed, create time
	b = be.AppendUint32(b, uint32(len(group)-1)) // last offset delta
	b = be.AppendUint64(b, now)                  // base timestamp
	b = be.AppendUint64(b, now)                  // max timestamp
	b = be.AppendUint64(b, uint64(producer.ProducerID))
	b = be.AppendUint16(b, uint16(producer.ProducerEpoch))
	b = be.AppendUint32(b, uint32(sequence))
	b = be.AppendUint32(b, uint32(len(group)))
	for i, m := range group {
		size := 2 + varintLen(i) + bytesLen(len(m.key)) + bytesLen(len(m.payload)) + varintLen(len(m.headers)+1) +
			bytesLen(len(idHeader)) +
			bytesLen(len(m.text))
		for _, h := range m.headers {
			size += bytesLen(len(h.key)) + bytesLen(len(h.value))
		}
		b = binary.AppendVarint(b, int64(size))
		b = append(b, 0, 0) // attributes, timestamp delta
		b = binary.AppendVarint(b, int64(i))
		b = appendText(b, m.key)
		b = appendText(b, string(m.payload))
		b = binary.AppendVarint(b, int64(len(m.headers)+1))
		b = appendText(appendText(b, idHeader), m.text)
		for _, h := range m.headers {
			b = appendText(appendText(b, h.key), h.value)
		}
	}
	be.PutUint32(b[sizeAt:], uint32(len(b)-4))
	be.PutUint32(b[lengthAt:], uint32(len(b)-lengthAt-4))
	be.PutUint32(b[crcAt:], crc32.Checksum(b[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

const idHeader = "message-id"

func appendText(b []byte, s string) []byte {
	return append(binary.AppendVarint(b, int64(len(s))), s...)
}

// varintLen is the length of n >= 0 as a zigzag varint.
func varintLen(n int) int {
	l := 1
	for u := uint(n) << 1; u >= 0x80; u >>= 7 {
		l++
	}
	return l
}

func bytesLen(n int) int { return varintLen(n) + n }
