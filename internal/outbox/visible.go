package outbox

import (
	"encoding/binary"
	"slices"
	"time"
)

// A Visible says which transactions had ended at the time of a statement: all before Oldest, none from Next on, and in
// between all that are not Running. Unassigned is the number that was to be assigned next, so that of the numbers from
// Next on some may belong to running transactions. All numbers have 64 bits: where a row holds only 32, the statement
// adds the epoch. The numbers of savepoints are not listed.
//
// Unassigned stays the same throughout a transaction, so each read has to be a transaction of its own.
type Visible struct {
	Oldest, Next uint64
	Running      []uint64 // in ascending order
	Unassigned   uint64
	Now          time.Time // the database's clock, at the statement's beginning or a little before
}

// Sees reports whether a transaction had ended.
func (v *Visible) Sees(transaction uint64) bool {
	return transaction < v.Oldest || transaction < v.Next && !slices.Contains(v.Running, transaction)
}

// FirstEnded returns the first transaction that v does not see and a later one does, or a number after all of them.
func (v *Visible) FirstEnded(later *Visible) uint64 {
	for _, running := range v.Running {
		if later.Sees(running) {
			return running
		}
	}
	for n := v.Next; n < later.Next; n++ {
		if later.Sees(n) {
			return n
		}
	}
	return later.Unassigned
}

// Certain reports whether a row's writer had certainly ended at the time of v, as certain in [Query]. ended is the
// first transaction that has ended since ([Visible.FirstEnded]). A savepoint's number is not among those running: it is
// higher than its transaction's, and in doubt if one that was running has ended.
func (v *Visible) Certain(writer uint64, exact bool, ended uint64) bool {
	return v.Sees(writer) && (exact || writer < v.Oldest || writer < ended)
}

// firstNormal is the least number of a transaction; smaller ones have special meanings.
const firstNormal = 3

// parse reads what a statement has said of itself. A snapshot is sent as the number of running transactions, the
// oldest, the next, and the running ones.
func (v *Visible) parse(values [][]byte) {
	snapshot, be := values[atSnapshot], binary.BigEndian
	v.Oldest, v.Next = be.Uint64(snapshot[4:]), be.Uint64(snapshot[12:])
	for running := snapshot[20:]; len(running) > 0; running = running[8:] {
		v.Running = append(v.Running, be.Uint64(running))
	}
	next := firstNormal + uint32(ordinal(values[atAge])) // the distance from the first number to the next one
	v.Unassigned = v.Next + uint64(next-uint32(v.Next))
	v.Now = time.UnixMicro(ordinal(values[atNow])).UTC()
}

// widen adds the epoch to a transaction's number of 32 bits, which is lower than the next one.
func (v *Visible) widen(n uint32) uint64 {
	back := uint64(uint32(v.Unassigned) - n)
	if n < firstNormal || back > v.Unassigned {
		return uint64(n) // before all others
	}
	return v.Unassigned - back
}

// binary is the snapshot as PostgreSQL sends a pg_snapshot.
func (v *Visible) binary() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(v.Running)))
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, v.Oldest), v.Next)
	for _, running := range v.Running {
		b = binary.BigEndian.AppendUint64(b, running)
	}
	return b
}
