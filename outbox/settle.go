package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// lockPatience is how long a settling statement waits for what somebody else keeps locked.
const lockPatience = 500 * time.Millisecond

// Settle marks or deletes acknowledged rows. It may be repeated. When somebody else keeps one of
// them locked for longer than a moment, none is settled and the error is [Locked].
//
// It looks for the rows where they were read, which saves a tenth of what a mark costs the database, and only by their
// ids for those that are not there any more.
func (t *Table) Settle(ctx context.Context, rows []*Row) error {
	ids := array(t.rowOID, identitiesOf(rows))
	if t.settleHere != "" {
		b := batch{limits: limits{lock: lockPatience}}
		b.add(t.settleHere, ids, placesOf(rows))
		if results, err := t.send(ctx, b); err != nil {
			return fmt.Errorf("settle rows: %w", err)
		} else if results[0].CommandTag.RowsAffected() == int64(len(rows)) {
			return nil
		}
	}
	if _, err := t.query(ctx, limits{lock: lockPatience}, t.settle, ids); err != nil {
		return fmt.Errorf("settle rows: %w", err)
	}
	return nil
}

// SettleFree settles those of the rows that nobody else keeps locked, and returns the ids of the others. It costs
// the database more than Settle does.
func (t *Table) SettleFree(ctx context.Context, rows []*Row) (locked []string, err error) {
	b, parameter := batch{limits: limits{lock: lockPatience}}, array(t.rowOID, identitiesOf(rows))
	b.add(t.settleFree, parameter)
	b.add(t.unsettled, parameter)
	results, err := t.send(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("settle rows: %w", err)
	}
	for _, row := range results[1].Rows {
		locked = append(locked, string(row[0]))
	}
	return locked, nil
}

func identitiesOf(rows []*Row) []string {
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.Identity()
	}
	return ids
}

// placesOf encodes where the rows were read as an array.
func placesOf(rows []*Row) []byte {
	places := make([][]byte, len(rows))
	for i, r := range rows {
		places[i] = r.place[:]
	}
	return array(oidTID, places)
}

// A Refusal is a try that the broker answered with a definite no.
type Refusal struct {
	ID      string // as [Row.Identity]
	Attempt int64  // as read
	Error   string
	Failed  bool // for good
}

// Refuse writes refused tries: the next attempt, the error, the time and, for those that failed,
// that they did. It writes a row only if it is as it was read, and returns the ids of those written and of those
// that somebody else keeps locked. The others have been changed by somebody else meanwhile. A table that has
// no column for any of this counts as written.
func (t *Table) Refuse(ctx context.Context, refusals []Refusal) (written, locked []string, err error) {
	n := len(refusals)
	ids, errors := make([]string, n), make([]string, n)
	attempts, next, failed := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	for i, r := range refusals {
		ids[i] = r.ID
		errors[i] = t.clean(r.Error)
		attempts[i] = number(r.Attempt)
		next[i] = number(min(r.Attempt, t.maxAttempt()-1) + 1)
		failed[i] = []byte{0}
		if r.Failed {
			failed[i] = []byte{1}
		}
	}
	if t.refuse == "" {
		return ids, nil, nil
	}
	rows, err := t.query(ctx, limits{lock: lockPatience}, t.refuse, array(t.rowOID, ids), array(oidInt8, attempts), array(oidInt8, next), array(oidText, errors), array(oidBool, failed))
	if err != nil {
		return nil, nil, fmt.Errorf("write refusals: %w", err)
	}
	for _, row := range rows {
		if id := string(row[0]); row[1][0] == 1 {
			written = append(written, id)
		} else {
			locked = append(locked, id)
		}
	}
	return written, locked, nil
}

// clean makes an error text fit for the last_error column: valid UTF-8 without NUL, cut to the column's
// width, which PostgreSQL counts in characters.
func (t *Table) clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
	if c := t.mapping.lastError; c != nil && c.width > 0 && utf8.RuneCountInString(text) > c.width {
		runes := []rune(text)
		text = string(runes[:c.width])
	}
	return text
}
