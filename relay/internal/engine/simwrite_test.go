package engine

import (
	"errors"
	"strconv"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// errSimGuarded is a trigger's answer.
var errSimGuarded = errors.New("the trigger says no")

// mark marks a row, if it is the version that was read or has the same content.
func (t *simTable) mark(r *Row, xid uint64) error {
	row := t.byID[r.ID()]
	switch {
	case row.status != pending:
		return nil
	case row.guarded:
		return errSimGuarded
	case r.Extra[1] != strconv.Itoa(row.content):
		return outbox.ErrRewritten
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
	return nil
}

// refuse writes a refusal, if the row is as it was read.
func (t *simTable) refuseRow(r *Row, xid uint64) error {
	row := t.byID[r.ID()]
	switch {
	case row.status != pending || row.attempt != r.Attempt:
		return outbox.ErrRewritten
	case row.guarded:
		return errSimGuarded
	}
	row.xmin, row.updated = xid, t.at
	row.version++
	if row.attempt++; r.Failed {
		row.status = failed
		t.drop(row)
		t.failed[row.id] = row
		row.spans = append(row.spans, simSpan{t.at, 1 << 62})
	}
	return nil
}

// write writes an outcome in a transaction.
func (t *simTable) write(o *Outcome, xid uint64, lock func(*simRow) bool) {
	o.Unwritten = map[string]error{}
	for _, r := range o.Rows {
		var why error
		switch row := t.byID[r.ID()]; {
		case row.status == pending && lock(row):
			why = outbox.ErrLocked
		case r.Refused != nil:
			why = t.refuseRow(r, xid)
		default:
			why = t.mark(r, xid)
		}
		if why != nil {
			o.Unwritten[r.Identity()] = why
		}
	}
}
