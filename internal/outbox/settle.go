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
	// lockPatience is how long a settling statement waits for a lock of another session.
	lockPatience = 500 * time.Millisecond

	// freePatience is the same for a statement that skips locked rows. It can still meet locks in a trigger or a foreign key,
	// and many statements may meet them before the rows in question are known.
	freePatience = 50 * time.Millisecond
)

// Settle marks or deletes accepted rows. It may be repeated. If another session keeps one of the rows locked for longer than a
// moment, no row is settled and the error is [Locked]. Rows that are still pending afterwards are named by a [*NoEffectError];
// the others are settled.
//
// Settle looks for the rows at the places where they were read, which saves a tenth of a mark's cost in the database. Only rows
// that are no longer there are found by their identities.
func (t *Table) Settle(ctx context.Context, rows []*Row) error {
	identities := array(t.rowOID, identitiesOf(rows))
	left, err := t.mark(ctx, rows, identities, t.settleHere, t.settle)
	if err != nil || left <= 0 {
		return err
	}
	// The remaining rows were settled or deleted by another session, or by this statement if its answer was lost, or nothing
	// was done.
	pending, err := t.query(ctx, limits{lock: lockPatience}, t.unsettled, identities)
	if err != nil {
		return fmt.Errorf("settle rows: %w", err)
	}
	return t.noEffect(firsts(pending))
}

// mark settles rows at the places where they were read, and then the remaining rows by their identities. here and anywhere are
// the two statements; if here is empty, all rows are found by their identities. mark returns the number of rows that are left.
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

// SettleFree settles the rows that no other session keeps locked, and returns the identities of the others. It costs the
// database more than Settle does. Its error is [Locked] if a trigger or a foreign key meets a lock.
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
	var pointless []string // rows that no other session could write, and that are pending all the same
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

// hidden separates rows that another session keeps locked from rows that row security hides from every write of this role.
// While there are some of both, all count as locked.
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
	seen := set(firsts(rows)) // no longer locked
	return firsts(rows), slices.DeleteFunc(slices.Clone(locked), func(identity string) bool { return seen[identity] }), nil
}

func identitiesOf(rows []*Row) []string {
	identities := make([]string, len(rows))
	for i, r := range rows {
		identities[i] = r.Identity()
	}
	return identities
}

// placesOf encodes the places where the rows were read as an array.
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

// A Refusal is an attempt that the broker answered with a definite no.
type Refusal struct {
	ID      string // the identity of the row ([Row.Identity])
	Attempt int64  // the attempt as read
	Error   string
	Failed  bool // permanently
}

// Refuse writes refused attempts: the next attempt, the error, the time and, for rows that failed, the failure. It writes a row
// only if the row is unchanged since it was read. It returns the identities of the rows written and of those that another
// session keeps locked. The others have been changed by another session, unless a [*NoEffectError] names them. In a table
// without columns for any of this, every row counts as written.
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
			done := set(slices.Concat(written, locked, pointless)) // in a table that keeps nothing else, every row is unchanged
			pointless = append(pointless, slices.DeleteFunc(firsts(rows), func(identity string) bool { return done[identity] })...)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("write refusals: %w", err)
	}
	return written, locked, t.noEffect(pointless)
}

// A NoEffectError names rows that a statement should have written but left unchanged, although no session keeps them locked and
// the server reported no error. Writing them again has no effect until the database is changed.
type NoEffectError struct {
	Identities []string // the identities of the rows ([Row.Identity])
	SetupError
}

// noEffect returns the error about unchanged rows, nil if there are none.
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
		e.Remedy = "give the role a policy for updates of all rows (for deletes with " + t.config.Names.Of("Delete") +
			"), or the attribute bypassrls"
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

// clean makes an error text fit for the last_error column: valid UTF-8 without NUL, cut to the column's width, which PostgreSQL
// counts in characters.
func (t *Table) clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
	if c := t.mapping.lastError; c != nil && c.width > 0 && utf8.RuneCountInString(text) > c.width {
		runes := []rune(text)
		text = string(runes[:c.width])
	}
	return text
}
