package outbox

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"
)

// each returns what a function returns for each of some values.
func each[T, U any](values []T, of func(T) U) []U {
	all := make([]U, len(values))
	for i, value := range values {
		all[i] = of(value)
	}
	return all
}

// shardArray encodes shards, nil for all.
func shardArray(shards []int) []byte {
	if shards == nil {
		return nil
	}
	return array(pgtype.Int4OID, each(shards, func(shard int) []byte {
		return binary.BigEndian.AppendUint32(nil, uint32(shard))
	}))
}

func number(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// array encodes elements, which are already binary values, as a one-dimensional array.
func array[E string | []byte](oid uint32, elements []E) []byte {
	size := 20
	for _, e := range elements {
		size += 4 + len(e)
	}
	b, be := make([]byte, 0, size), binary.BigEndian
	head := []int{1, 0, int(oid), len(elements), 1} // dimensions, no nulls, type, length, lower bound
	if len(elements) == 0 {
		head = []int{0, 0, int(oid)}
	}
	for _, n := range head {
		b = be.AppendUint32(b, uint32(n))
	}
	for _, e := range elements {
		b = append(be.AppendUint32(b, uint32(len(e))), e...)
	}
	return b
}
