package outbox

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"
)

// ordinalValue encodes an ordinal in the order column's type.
func (t *Table) ordinalValue(n int64) []byte {
	switch t.mapping.order.oid {
	case pgtype.Int2OID:
		return binary.BigEndian.AppendUint16(nil, uint16(max(min(n, 1<<15-1), -1<<15)))
	case pgtype.Int4OID:
		return binary.BigEndian.AppendUint32(nil, uint32(max(min(n, 1<<31-1), -1<<31)))
	default:
		return number(n)
	}
}

func shardArray(shards []int) []byte {
	elements := make([][]byte, len(shards))
	for i, shard := range shards {
		elements[i] = binary.BigEndian.AppendUint32(nil, uint32(shard))
	}
	return array(pgtype.Int4OID, elements)
}

func number(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// array encodes elements, which are already binary values, as a one-dimensional array.
func array[E string | []byte](oid uint32, elements []E) []byte {
	size := 20
	for _, e := range elements {
		size += 4 + len(e)
	}
	b := make([]byte, 0, size)
	be := binary.BigEndian
	if len(elements) == 0 {
		b = be.AppendUint32(b, 0) // dimensions
		b = be.AppendUint32(b, 0)
		return be.AppendUint32(b, oid)
	}
	b = be.AppendUint32(b, 1) // dimensions
	b = be.AppendUint32(b, 0) // no nulls
	b = be.AppendUint32(b, oid)
	b = be.AppendUint32(b, uint32(len(elements)))
	b = be.AppendUint32(b, 1) // lower bound
	for _, e := range elements {
		b = be.AppendUint32(b, uint32(len(e)))
		b = append(b, e...)
	}
	return b
}
