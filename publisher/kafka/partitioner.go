package kafka

import "encoding/binary"

// murmur2 is the hash of the Java client's partitioner (org.apache.kafka.common.utils.Utils), so that
// a key lands in the same partition whichever of the two writes it.
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
	return h ^ h>>15
}

// partitionOf returns the partition for a key of that hash. The sign bit is dropped as the Java client
// does.
func partitionOf(hash uint32, partitions int) int32 {
	return int32((hash & 0x7fffffff) % uint32(partitions))
}
