package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// lockPatience is how long a settling statement waits for what somebody else keeps locked.
	lockPatience = 500 * time.Millisecond

	// freePatience is the same for a statement that skips locked rows. What is left are locks that a trigger or a foreign key
	// meets, and many statements may meet them until it is known which rows these are.
	freePatience = 50 * time.Millisecond
)

// Settle marks or deletes acknowledged rows. It may be repeated. When somebody else keeps one of
// them locked for longer than a moment, none is settled and the error is [Locked]. Rows that are as pending afterwards as before are
// named by a [*NoEffectError]; the others are settled.
//
// It looks for the rows where they were read, which saves a tenth of what a mark costs the database, and only by their
// identities for those that are not there any more.
func (t *Table) Settle(ctx context.Context, rows []*Row) error {
	identities := array(t.rowOID, identitiesOf(rows))
	left, err := t.mark(ctx, rows, identities, t.settleHere, t.settle)
	if err != nil || left <= 0 {
		return err
	}
	// Somebody else has settled or deleted the rest, or this did it and the answer was lost, or nothing was done.
	pending, err := t.query(ctx, limits{lock: lockPatience}, t.unsettled, identities)
	if err != nil {
		return fmt.Errorf("settle rows: %w", err)
	}
	return t.noEffect(firsts(pending))
}

// mark settles rows where they were read, and then wherever they are, with these statements; without the first, wherever they are. It
// returns how many are left.
func (t *Table) mark(ctx context.Context, rows []*Row, identities []byte, here, anywhere string) (left int64, err error) {
	left = int64(len(rows))
	for _, form := range []string{here, anywhere} {
		if form == "" {
			continue
		}
		b := batch{limits: limits{lock: lockPatience}}
		if form == here {
			b.add(form, identities, placesOf(rows))
		} else {
			b.add(form, identities)
		}
		results, err := t.send(ctx, b)
		if err != nil {
			return left, fmt.Errorf("settle rows: %w", err)
		}
		if left -= results[0].CommandTag.RowsAffected(); left <= 0 {
			break
		}
	}
	return left, nil
}

// SettleFree settles those of the rows that nobody else keeps locked, and returns the identities of the others. It costs
// the database more than Settle does. Its error is [Locked] when a trigger or a foreign key meets a lock.
func (t *Table) SettleFree(ctx context.Context, rows []*Row) (locked []string, err error) {
	b, parameter := batch{limits: limits{lock: freePatience}}, array(t.rowOID, identitiesOf(rows))
	b.add(t.lockFree, parameter)
	b.add(t.settleFree, parameter)
	b.add(t.unsettled, parameter)
	results, err := t.send(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("settle rows: %w", err)
	}
	pending := firsts(results[2].Rows)
	if len(pending) == 0 {
		return nil, nil
	}
	var pointless []string // nobody else could write them, and they are pending all the same
	free := set(firsts(results[0].Rows))
	for _, identity := range pending {
		if free[identity] {
			pointless = append(pointless, identity)
		} else {
			locked = append(locked, identity)
		}
	}
	locked, hidden, err := t.hidden(ctx, locked)
	if err != nil {
		return nil, fmt.Errorf("settle rows: %w", err)
	}
	return locked, t.noEffect(append(pointless, hidden...))
}

// hidden tells rows that somebody keeps locked from those that row security hides from every write of this role. While there are
// some of both, all count as locked.
func (t *Table) hidden(ctx context.Context, locked []string) (stillLocked, hidden []string, err error) {
	if !t.policies || len(locked) == 0 {
		return locked, nil, nil
	}
	rows, err := t.query(ctx, limits{lock: freePatience}, t.lockAll, array(t.rowOID, locked))
	if Locked(err) {
		return locked, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	seen := set(firsts(rows)) // free by now
	return firsts(rows), slices.DeleteFunc(slices.Clone(locked), func(identity string) bool { return seen[identity] }), nil
}

func identitiesOf(rows []*Row) []string {
	identities := make([]string, len(rows))
	for i, r := range rows {
		identities[i] = r.Identity()
	}
	return identities
}

// placesOf encodes where the rows were read as an array.
func placesOf(rows []*Row) []byte {
	places := make([][]byte, len(rows))
	for i, r := range rows {
		places[i] = r.place[:]
	}
	return array(oidTID, places)
}

// firsts returns the first value of each row.
func firsts(rows [][][]byte) []string {
	values := make([]string, len(rows))
	for i, row := range rows {
		values[i] = string(row[0])
	}
	return values
}

func set(values []string) map[string]bool {
	m := make(map[string]bool, len(values))
	for _, value := range values {
		m[value] = true
	}
	return m
}

// A Refusal is a try that the broker answered with a definite no.
type Refusal struct {
	ID      string // as [Row.Identity]
	Attempt int64  // as read
	Error   string
	Failed  bool // for good
}

// Refuse writes refused tries: the next attempt, the error, the time and, for those that failed,
// that they did. It writes a row only if it is as it was read, and returns the identities of those written and of those
// that somebody else keeps locked. The others have been changed by somebody else meanwhile, unless a [*NoEffectError] names
// them. A table that has no column for any of this counts as written.
func (t *Table) Refuse(ctx context.Context, refusals []Refusal) (written, locked []string, err error) {
	n := len(refusals)
	identities, texts := make([]string, n), make([]string, n)
	attempts, next, failed := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	for i, r := range refusals {
		identities[i] = r.ID
		texts[i] = t.clean(r.Error)
		attempts[i] = number(r.Attempt)
		next[i] = number(min(r.Attempt, t.maxAttempt()-1) + 1)
		failed[i] = []byte{0}
		if r.Failed {
			failed[i] = []byte{1}
		}
	}
	if t.refuse == "" {
		return identities, nil, nil
	}
	which, asRead := array(t.rowOID, identities), array(oidInt8, attempts)
	rows, err := t.query(ctx, limits{lock: lockPatience}, t.refuse, which, asRead, array(oidInt8, next), array(oidText, texts),
		array(oidBool, failed))
	if err != nil {
		return nil, nil, fmt.Errorf("write refusals: %w", err)
	}
	for _, row := range rows {
		if identity := string(row[0]); row[1][0] == 1 {
			written = append(written, identity)
		} else {
			locked = append(locked, identity)
		}
	}
	locked, pointless, err := t.hidden(ctx, locked)
	if err == nil && len(written)+len(locked)+len(pointless) < n {
		if rows, err = t.query(ctx, limits{lock: lockPatience}, t.unrefused, which, asRead); err == nil {
			done := set(slices.Concat(written, locked, pointless)) // a table that keeps nothing else is as it was read
			pointless = append(pointless, slices.DeleteFunc(firsts(rows), func(identity string) bool { return done[identity] })...)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("write refusals: %w", err)
	}
	return written, locked, t.noEffect(pointless)
}

// A NoEffectError names rows that a statement was to write and that are as they were, although nobody keeps them locked and the
// server reported no error. Writing them once more will do no better before somebody has changed the database.
type NoEffectError struct {
	Identities []string // as [Row.Identity]
	SetupError
}

// noEffect returns the error about rows that are as they were, nil if there are none.
func (t *Table) noEffect(identities []string) error {
	if len(identities) == 0 {
		return nil
	}
	e := &NoEffectError{Identities: identities}
	e.Check = checkRights
	e.Problem = fmt.Sprintf("writing rows has no effect and gives no error: a BEFORE trigger that returns NULL, a rule, or row security "+
		"keeps role %s from it", t.role)
	e.Remedy = "change the trigger or the rule, or give the role a policy for updates of all rows, or the attribute bypassrls"
	if t.policies {
		e.Problem = fmt.Sprintf("writing rows has no effect and gives no error: row security is active for role %s, and lets it see rows that "+
			"it may not write", t.role)
		e.Remedy = "give the role a policy for updates of all rows (deletes with OUTBOX_SETTLE=delete), or the attribute bypassrls"
	}
	return e
}

// WithoutEffect returns the identities that a [*NoEffectError] names, nil for any other error.
func WithoutEffect(err error) []string {
	if e, ok := errors.AsType[*NoEffectError](err); ok {
		return e.Identities
	}
	return nil
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
