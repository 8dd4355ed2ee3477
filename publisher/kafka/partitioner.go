package kafka

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Partitioner maps a key to a number. The key's partition is that number modulo the number of partitions.
type Partitioner func(key []byte) uint32

// ParsePartitioner returns the partitioner with the given name: murmur2 as in the Java client, crc32 as in librdkafka,
// or fnv1a as in Sarama.
func ParsePartitioner(name string) (Partitioner, error) {
	switch name {
	case "murmur2":
		return murmur2, nil
	case "crc32":
		return checksum, nil
	case "fnv1a":
		return fnv1a, nil
	default:
		return nil, fmt.Errorf("unknown partitioner %q: use murmur2, crc32 or fnv1a", name)
	}
}

// murmur2 is the partitioner of the Java client (org.apache.kafka.common.utils.Utils), and of librdkafka under the name
// murmur2_random. A key therefore goes to the same partition whichever of them writes it. The sign bit is dropped as in
// the Java client.
func murmur2(key []byte) uint32 {
	const seed, m, r = 0x9747b28c, 0x5bd1e995, 24
	h := uint32(seed) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		k = (k ^ k>>r) * m
		h = h*m ^ k
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h = (h ^ h>>13) * m
	return (h ^ h>>15) & 0x7fffffff
}

// checksum is the default of librdkafka, consistent_random, and of the clients built on it. An empty key has an order
// here and stays in one partition, as in librdkafka's consistent; consistent_random would spread it.
func checksum(key []byte) uint32 { return crc32.ChecksumIEEE(key) }

// fnv1a is the default of Sarama (its HashPartitioner). Sarama treats the hash as a signed number and drops the sign of
// the remainder, which gives the same result as the remainder of the number without its sign.
func fnv1a(key []byte) uint32 {
	const offset, prime = 2166136261, 16777619
	h := uint32(offset)
	for _, b := range key {
		h = (h ^ uint32(b)) * prime
	}
	if int32(h) < 0 {
		return -h
	}
	return h
}

// partitionOf returns the partition for a key with the given number.
func partitionOf(number uint32, partitions int) int32 { return int32(number % uint32(partitions)) }

// chosen returns the partition that the row names in the given header. given is false if the row names none.
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
