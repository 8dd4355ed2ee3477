package engine

import (
	"strconv"
)

// mark marks a row, if it is the version that was read or has the same content, and returns the effect.
func (t *simTable) mark(r *Row, xid uint64) (Effect, bool) {
	row := t.byID[r.ID()]
	switch {
	case row.status != pending:
		return 0, false
	case row.guarded:
		return Unwritable, true
	case r.Extra[1] != strconv.Itoa(row.content):
		return Rewritten, true
	}
	row.xmin, row.status = xid, relayed
	row.version++
	t.drop(row)
	if row.sent == 0 && !row.touched {
		t.faultf("%s was marked and never delivered", row.id)
	}
	if !row.sentAs[r.Extra[1]] && !row.touched || row.touched && row.sent > 0 && !row.sentAs[strconv.Itoa(row.content)] {
		t.faultf("%s was marked and not delivered as it is", row.id)
	}
	return 0, false
}

// refuse writes a refusal, if the row is as it was read.
func (t *simTable) refuseRow(r *Row, xid uint64) Effect {
	row := t.byID[r.ID()]
	switch {
	case row.status != pending || row.attempt != r.Attempt:
		return 0
	case row.guarded:
		return Unwritable
	}
	row.xmin, row.updated = xid, t.at
	row.version++
	if row.attempt++; r.Failed {
		row.status = failed
		t.drop(row)
		t.failed[row.id] = row
		row.spans = append(row.spans, simSpan{t.at, 1 << 62})
	}
	return Written
}

// write writes an outcome in a transaction.
func (t *simTable) write(o *Outcome, xid uint64, lock func(*simRow) bool) {
	o.Effects = map[string]Effect{}
	for _, r := range o.Rows {
		if row := t.byID[r.ID()]; row.status == pending && lock(row) {
			o.Effects[r.Identity()] = Unfree
		} else if r.Refused != nil {
			o.Effects[r.Identity()] = t.refuseRow(r, xid)
		} else if effect, has := t.mark(r, xid); has {
			o.Effects[r.Identity()] = effect
		}
	}
}
