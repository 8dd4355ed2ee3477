package engine

import (
	"math"
)

// What may be read is decided here. Everything that is in flight lies in memory, bounded in rows and in bytes, and the
// bounds are kept before a read is made, since afterwards the rows are there. A quarter is left to keys that are read
// by themselves, so that a tail with a backlog does not keep keys from going on whose trouble is over. When a read took
// all that was free, there was never a second one beside it, and a large row of a key in trouble could not be read at
// all while a backlog filled the rest.

// freeRows returns how many rows there is room for, of which a part is kept free. Rows that reads under way may bring
// count as if they were there. A rate bounds it too: more rows than may be sent soon would only wait in memory.
func (e *Engine) freeRows(kept int) int {
	asked := 0
	for _, r := range e.reads.under {
		if r != nil {
			asked += r.rows()
		}
	}
	return min(e.Limits.Rows-len(e.flying)-kept, e.ahead(e.tokens)-e.queued) - asked
}

// freeBytes returns how much may be read at once, and how large the first row may be; 0 if nothing may be read. There
// is room for two reads at a time: one of keys takes a quarter at most, and one of a tail leaves as much. A row that
// does not fit is read when there is room for it, or when almost nothing is in flight except rows that cannot be
// written, which may stay for ever. No tail fills the room for which such a row of a key waits.
func (e *Engine) freeBytes(kind Kind) (bytes, first int64) {
	bytes = e.Limits.Bytes - e.bytes
	others := false
	for _, r := range e.reads.under {
		if r != nil {
			bytes -= r.query.Bytes
			others = others || r.rows() > 0
		}
	}
	most := e.mostBytes(kind)
	// Hardly anything is in flight, or nothing that will leave, so that waiting makes no more room: the first row may
	// have any size.
	if (bytes >= e.mostBytes(Tail) || e.stuck() >= len(e.flying)) && !others {
		return min(max(bytes, 1), most), math.MaxInt64
	}
	if kind != Keys {
		bytes -= e.mostBytes(Keys)
		if len(e.resting) > 0 {
			bytes = min(bytes, bytes+e.mostBytes(Keys)-e.reads.wants[Keys])
		}
	}
	wants := e.reads.wants[kind]
	if bytes <= 0 || bytes < wants {
		return 0, 0
	}
	bytes = min(bytes, max(most, wants))
	return bytes, bytes
}

// mostBytes returns how much a read of a kind may bring: a quarter of all for keys, three quarters for the others.
func (e *Engine) mostBytes(kind Kind) int64 {
	quarter := max(1, e.Limits.Bytes/4)
	if kind == Keys {
		return quarter
	}
	return max(1, e.Limits.Bytes-quarter)
}

// tailRows returns how many rows a tail may bring. A quarter of the room stays for keys that are read by themselves:
// these have waited longest, and the tail fills whatever it gets.
func (e *Engine) tailRows() int { return e.freeRows((e.Limits.Rows - e.stuck()) / 4) }

// least returns how many rows of room make a page worthwhile. Each page costs a statement, and begins at the low
// watermark again: pages of a few rows would read the rows in flight over and over.
func (e *Engine) least() int {
	return max(1, min(e.Limits.Batch, e.ahead(e.mostTokens())/2, pageOf(e.Limits.Rows-e.stuck())))
}

// pageOf returns how many rows a page may have if so many may be in flight. Two pages of a tail fit into what it may
// fill, so that one is read and published while another is marked.
func pageOf(rows int) int { return max(1, rows*3/8) }
