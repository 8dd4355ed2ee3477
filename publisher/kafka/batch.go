package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// maxBatchBytes is the size up to which a record batch is filled. It is below the default limit of brokers and
	// topics (1,048,588 bytes). A larger record is tried in a batch of its own.
	maxBatchBytes = 1_000_000
	// maxRequestBytes is the size up to which the batches of one request are filled, to save memory. Brokers close the
	// connection above socket.request.max.bytes, 100 MiB by default.
	maxRequestBytes = 8 << 20
	// maxRecordBytes is the size above which a record is refused without asking the broker, because it could not be
	// sent in any request.
	maxRecordBytes = 100<<20 - 64<<10
)

// Offsets into an encoded batch (RecordBatch of format version 2, since Kafka 0.11), its size prefix included. Sizes,
// the checksum and the number of records are known only after the records have been appended. All numbers of the header
// are big-endian and of fixed size. The lengths within a record are zigzag varints.
const (
	lengthAt      = 12
	leaderEpochAt = 16
	magicAt       = 20
	crcAt         = 21
	attributesAt  = 25
	lastDeltaAt   = 27
	baseTimeAt    = 31
	maxTimeAt     = 39
	producerAt    = 47 // its id, epoch and sequence
	countAt       = 61
	recordsAt     = 65
)

// appendBatch appends one uncompressed record batch (format version 2) after a size prefix, as a produce request holds
// it. The batch still has to be sealed. It takes the messages named by queue, in order, until the batch would exceed
// limit bytes, but at least one. It returns how many it took. The clock gives the records their times. The limit counts
// uncompressed bytes, because the compressed size is known only afterwards. Sequences count records: the batch takes
// the numbers from sequence to sequence+count-1.
func appendBatch(b []byte, messages []publisher.Message, queue []int32, limit int, from producer, sequence int32,
	times clock,
) (_ []byte, count int) {
	be := binary.BigEndian
	b = append(b[:0], make([]byte, recordsAt)...) // uncompressed, time of creation; the broker assigns the base offset
	be.PutUint32(b[leaderEpochAt:], 0xffffffff)
	b[magicAt] = 2
	be.PutUint64(b[producerAt:], uint64(from.id))
	be.PutUint16(b[producerAt+8:], uint16(from.epoch))
	be.PutUint32(b[producerAt+10:], uint32(sequence))

	base := times.of(&messages[queue[0]])
	latest := base
	for _, i := range queue {
		m := &messages[i]
		at, before := times.of(m), len(b)
		b = slices.Grow(b, binary.MaxVarintLen64+m.Size()+128) // a large record is not moved while it is encoded
		// The length comes first and has a length of its own, so the record is encoded after a gap for the longest one.
		body := b[before+binary.MaxVarintLen64 : before+binary.MaxVarintLen64]
		body = append(body, 0) // attributes
		body = binary.AppendVarint(body, at-base)
		body = binary.AppendVarint(body, int64(count))
		body = appendBody(body, m)
		b = append(binary.AppendVarint(b, int64(len(body))), body...)
		if count > 0 && len(b) > limit {
			b = b[:before]
			break
		}
		latest = max(latest, at)
		count++
	}
	be.PutUint32(b[lastDeltaAt:], uint32(count-1))
	be.PutUint64(b[baseTimeAt:], uint64(base))
	be.PutUint64(b[maxTimeAt:], uint64(latest))
	be.PutUint32(b[countAt:], uint32(count))
	return b, count
}

// seal fills in the sizes and the checksum of an encoded batch. The checksum (CRC-32C) covers everything from the
// attributes on. The base offset and the leader's epoch before it may therefore be set by the broker, and compression,
// which changes the attributes and the records, comes before seal. A bit that flips on the way gets CORRUPT_MESSAGE
// (2).
func seal(b []byte) {
	be := binary.BigEndian
	be.PutUint32(b, uint32(len(b)-4))
	be.PutUint32(b[lengthAt:], uint32(len(b)-lengthAt-4))
	be.PutUint32(b[crcAt:], crc32.Checksum(b[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
}

// appendBody appends the key, value and headers of a record. A nil key or value is null, which compaction takes for a
// deletion, and an empty one is not. The message's own id is the header that consumers use to recognise copies. A Bare
// message carries all its headers already, as the wire format that the user has chosen wants them.
func appendBody(b []byte, m *publisher.Message) []byte {
	b = appendNullable(b, m.RecordKey())
	b = appendNullable(b, m.Payload)
	own := make([]string, 0, 4) // names and values of the headers that are not the row's
	if !m.Bare {
		own = append(own, publisher.HeaderMessageID, m.ID)
		if _, given := m.Header(publisher.HeaderContentType); !given && m.Type != "" {
			own = append(own, publisher.HeaderContentType, m.Type)
		}
	}
	b = binary.AppendVarint(b, int64(len(own)/2+len(m.Headers)))
	for _, text := range own {
		b = appendString(b, text)
	}
	for i := range m.Headers {
		b = appendString(appendString(b, m.Headers[i].Name), m.Headers[i].Value)
	}
	return b
}

// appendString appends a text after its length.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendVarint(b, int64(len(s))), s...)
}

// appendNullable appends bytes after their length, which is -1 for nil.
func appendNullable(b, s []byte) []byte {
	if s == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(s))), s...)
}
