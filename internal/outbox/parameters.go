package outbox

import (
	"encoding/binary"
	"slices"
)

// afterNulls marks the position between the rows without and those with an order value.
const afterNulls = "\x00after nulls"

// statement returns the statement for a query with its parameters in binary form.
func (t *Table) statement(q Query) (statement string, parameters [][]byte, formats []int16) {
	parameters = append(parameters, number(int64(q.Limit)))
	ordered := t.ordered(q)
	switch {
	case q.Due:
		statement = ordered.due
		parameters = append(parameters, t.dueParameters(q)...)
	case q.IDs != nil:
		statement = t.readIDs
		ids := q.IDs
		if t.idOID != oidText { // no row with a null id is found by id
			ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" })
		}
		parameters = append(parameters, array(t.idOID, ids))
	case q.Keys != nil && !q.After.IsZero():
		if statement = t.readKeysAfter; q.NullKey {
			statement = ordered.keysOrNull
		}
		parameters = t.place(append(parameters, array(oidText, q.Keys)), q.After)
	case q.Keys != nil:
		statement = t.readKeys
		parameters = append(parameters, array(oidText, q.Keys))
		if t.Ordinal() {
			var from []byte
			if q.From != nil && t.mapping.order.notNull {
				from = t.ordinalValue(*q.From)
			}
			parameters = append(parameters, from)
		}
	case q.Recent != nil:
		statement = ordered.recent
		parameters = append(t.since(parameters, q), t.ordinalValue(*q.Recent))
	case ordered.nulls != "" && (q.After.IsZero() || q.After.nulls):
		statement = ordered.nulls
		var id []byte
		if q.After.nulls {
			id = []byte(q.After.id)
		}
		parameters = append(parameters, id)
	case q.After.IsZero() || q.After.order == afterNulls:
		statement = ordered.first
		parameters = t.since(parameters, q)
	default:
		statement = ordered.after
		parameters = t.place(parameters, q.After)
		if t.mapping.rank != nil && !q.Unranked {
			parameters = append(parameters, []byte(q.After.rank))
		}
	}
	parameters = append(parameters, number(t.inPage(q)))
	if q.Shards != nil && (q.Keys == nil || q.NullKey) && q.IDs == nil {
		parameters = append(parameters, shardArray(q.Shards))
	}
	return statement, parameters, binaryFormats(len(parameters))
}

// place appends a position without the priority.
func (t *Table) place(parameters [][]byte, p Position) [][]byte {
	if t.mapping.order != t.mapping.id {
		parameters = append(parameters, []byte(p.order))
	}
	return append(parameters, []byte(p.id))
}

// since appends the first transaction whose rows are wanted, nil for all, and the snapshot after which any are wanted.
func (t *Table) since(parameters [][]byte, q Query) [][]byte {
	if q.Since == nil || !t.mapping.written || t.Delays() {
		return append(parameters, nil, nil)
	}
	return append(parameters, binary.BigEndian.AppendUint32(nil, q.Since.Oldest), []byte(q.Since.text))
}

// ordinalValue encodes an ordinal in the order column's type.
func (t *Table) ordinalValue(n int64) []byte {
	switch t.mapping.order.oid {
	case oidInt2:
		return binary.BigEndian.AppendUint16(nil, uint16(max(min(n, 1<<15-1), -1<<15)))
	case oidInt4:
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
	return array(oidInt4, elements)
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
