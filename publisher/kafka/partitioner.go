package kafka

import (
	"fmt"
	"strconv"
	"strings"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Partitioner chooses the partition of a key.
type Partitioner = kafkago.Balancer

// ParsePartitioner returns the partitioner with the given name: murmur2 as in the Java client and as murmur2_random in
// librdkafka, crc32 as in librdkafka, or fnv1a as in Sarama. An empty key has an order and stays in one partition, as
// in librdkafka's consistent; consistent_random, its default, would spread it. Keys go where the application's former
// producer has sent them only if both use the same function and the topic still has the same number of partitions.
func ParsePartitioner(name string) (Partitioner, error) {
	switch name {
	case "murmur2":
		return kafkago.Murmur2Balancer{}, nil
	case "crc32":
		return kafkago.CRC32Balancer{Consistent: true}, nil
	case "fnv1a":
		return &kafkago.Hash{}, nil
	default:
		return nil, fmt.Errorf("unknown partitioner %q: use murmur2, crc32 or fnv1a", name)
	}
}

// chosen returns the partition that the row names in the given header. given is false if the row names none. The number
// is not compared with the topic here.
func chosen(m *publisher.Message, header string) (partition int32, given bool, err error) {
	if header == "" {
		return 0, false, nil
	}
	text, given := m.Header(header)
	if !given {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, true, publisher.PermanentError("illegal partition",
			"the header %q names the partition %.40q: write a number from 0",
			header, text)
	}
	return int32(n), true, nil
}

// CheckHeader returns an error for the header that names a partition, because another topic may not have that
// partition.
func (p *Publisher) CheckHeader(h *publisher.Header) error {
	if p.config.PartitionHeader != "" && strings.EqualFold(h.Name, p.config.PartitionHeader) {
		return publisher.PermanentError("illegal partition", "the header %q names a partition of another topic", h.Name)
	}
	return nil
}
