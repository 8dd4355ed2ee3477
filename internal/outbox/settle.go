package outbox

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	// mostRereads is how often changed rows are read again. Each of several destinations that mark a row at the same
	// time makes another version of it.
	mostRereads = 64

	// lockPatience is how long a settling statement waits for a lock of another session.
	lockPatience = 500 * time.Millisecond

	// freePatience is the same for a statement that skips locked rows. It can still meet locks in a trigger or a
	// foreign key, and many statements may meet them before the rows in question are known.
	freePatience = 50 * time.Millisecond
)

// Settle marks or deletes accepted rows. It may be repeated. If another session keeps one of the rows locked for
// longer than a moment, no row is settled and the error is [Locked]. Rows that are still pending afterwards are named
// by a [*NoEffectError], and those that are no longer what was read by a [*RewrittenError]; the others are settled.
//
// Settle looks for the rows at the places where they were read, which saves a tenth of a mark's cost in the database.
// Only rows that are no longer there are found by their identities. It settles the versions that were read, so that
// nothing is marked that no broker has. A row of which there is another version with the same content, because another
// destination has marked it, is read again for that.
func (t *Table) Settle(ctx context.Context, rows []*Row) error {
	return t.settle(ctx, rows, func(rows []*Row) (pending [][][]byte, err error) {
		left, err := t.mark(ctx, t.description, rows)
		if err != nil || left <= 0 {
			return nil, err
		}
		// The remaining rows were settled or deleted by another session, or by this statement if its answer was lost,
		// or they have changed, or nothing was done.
		return t.query(ctx, limits{lock: lockPatience}, t.description.text("unsettled.sql"),
			array(t.rowOID, identitiesOf(rows)))
	})
}

// settle settles rows by once, which returns those that are still pending although it could write them, and again those
// of which there is another version with the same content by now.
func (t *Table) settle(ctx context.Context, rows []*Row, once func([]*Row) (pending [][][]byte, err error)) error {
	var pointless, rewritten []string
	var err error
	for tries := 0; len(rows) > 0; tries++ {
		var pending [][][]byte
		if pending, err = once(rows); err != nil || len(pending) == 0 {
			break
		}
		of, changed := byIdentity(rows), map[string]*Row{}
		for _, values := range pending {
			identity := string(values[0])
			if r := of[identity]; r != nil && binary.BigEndian.Uint32(values[1]) != r.version {
				changed[identity] = r
			} else {
				pointless = append(pointless, identity)
			}
		}
		rows = nil
		if tries < mostRereads {
			if rows, err = t.reread(ctx, changed); err != nil {
				break
			}
		}
		rewritten = slices.AppendSeq(rewritten, maps.Keys(changed))
	}
	if err != nil {
		err = fmt.Errorf("settle rows: %w", err)
	}
	err = errors.Join(err, t.noEffect(pointless))
	if len(rewritten) > 0 {
		err = errors.Join(err, &RewrittenError{Identities: rewritten})
	}
	return err
}

// writesRefusals reports whether the table keeps anything about attempts.
func (t *Table) writesRefusals() bool { return t.description["refusal"] != "" }

func byIdentity(rows []*Row) map[string]*Row {
	of := make(map[string]*Row, len(rows))
	for _, r := range rows {
		of[r.Identity()] = r
	}
	return of
}

// reread reads changed rows again. Those whose content is the same it takes out of changed and returns, as copies with
// their present versions.
func (t *Table) reread(ctx context.Context, changed map[string]*Row) (same []*Row, err error) {
	ids := map[*Table][]string{}
	for _, r := range changed {
		ids[r.view] = append(ids[r.view], r.ID())
	}
	for view, ids := range ids {
		// Destinations that share columns are settled together, and each sees the table in a way of its own.
		if err := cmp.Or(view, t).readByID(ctx, ids, func(row *Row) {
			if r := changed[row.Identity()]; r != nil && r.Same(row) {
				now := *r
				now.version, now.place = row.version, row.place
				same = append(same, &now)
				delete(changed, row.Identity())
			}
		}); err != nil {
			return nil, fmt.Errorf("read changed rows again: %w", err)
		}
	}
	return same, nil
}

// mark writes what d says into rows at the places where they were read, if these lead to them, and then into the
// remaining rows by their identities. It returns the number of rows that are left.
func (t *Table) mark(ctx context.Context, d description, rows []*Row) (left int64, err error) {
	left = int64(len(rows))
	write := func(file string, parameters ...[]byte) {
		if left <= 0 || err != nil {
			return
		}
		var results []*pgconn.Result
		results, err = t.send(ctx, limits{lock: lockPatience},
			request{statement: d.text(file), parameters: append(parameters, versionsOf(rows))})
		if err == nil {
			left -= results[0].CommandTag.RowsAffected()
		}
	}
	if t.mapping.place != noPlace {
		places := each(rows, func(r *Row) []byte { return r.place[:] })
		write("settle_here.sql", array(t.idOID, each(rows, (*Row).ID)), array(pgtype.TIDOID, places))
	}
	write("settle.sql", array(t.rowOID, identitiesOf(rows)))
	return left, err
}

// SettleFree settles the rows that no other session keeps locked, and returns the identities of the others. It costs
// the database more than Settle does. Its error is [Locked] if a trigger or a foreign key meets a lock, and otherwise
// as that of Settle.
func (t *Table) SettleFree(ctx context.Context, rows []*Row) (locked []string, err error) {
	d := t.description
	err = t.settle(ctx, rows, func(rows []*Row) (pending [][][]byte, err error) {
		which := [][]byte{array(t.rowOID, identitiesOf(rows))}
		results, err := t.send(ctx, limits{lock: freePatience, first: t.writeLock()},
			request{statement: d.text("lock.sql", "wait", "skip locked"), parameters: which},
			request{statement: d.text("settle_free.sql"), parameters: append(which, versionsOf(rows))},
			request{statement: d.text("unsettled.sql"), parameters: which})
		if err != nil {
			return nil, err
		}
		free := set(firsts(results[0].Rows))
		return slices.DeleteFunc(results[2].Rows, func(values [][]byte) bool {
			identity := string(values[0])
			if !free[identity] {
				locked = append(locked, identity)
			}
			return !free[identity] // no other session could write the others, and they are pending all the same
		}), nil
	})
	return locked, err
}

// stillLocked leaves out of locked rows those that row security hides from every write of this role. While there are
// some of both, all count as locked.
func (t *Table) stillLocked(ctx context.Context, locked []string) ([]string, error) {
	if !t.relation.Policies || len(locked) == 0 {
		return locked, nil
	}
	rows, err := t.query(ctx, limits{lock: freePatience}, t.description.text("lock.sql", "wait", "nowait"),
		array(t.rowOID, locked))
	if Locked(err) {
		return locked, nil
	}
	return firsts(rows), err
}

// writeLock is a statement that takes the table's lock for writing rows, and does nothing. It comes first where a
// statement would take a weaker lock on the table before: a migration that holds a lock for which that statement then
// waits, and that asks for another one itself, would be ended by the server because of a deadlock, at once. To explain
// a statement fires no trigger of the table.
func (t *Table) writeLock() string { return t.description.text("lock_table.sql") }

func identitiesOf(rows []*Row) []string { return each(rows, (*Row).Identity) }

// versionsOf encodes the versions of rows as an array, each once.
func versionsOf(rows []*Row) []byte {
	var versions [][]byte
	last := uint32(0)
	for _, r := range rows {
		if r.version != last {
			versions = append(versions, binary.BigEndian.AppendUint32(nil, r.version))
		}
		last = r.version
	}
	return array(pgtype.XIDOID, versions)
}

// firsts returns the first value of each row.
func firsts(rows [][][]byte) []string {
	return each(rows, func(row [][]byte) string { return string(row[0]) })
}

func set(values []string) map[string]bool {
	m := make(map[string]bool, len(values))
	for _, value := range values {
		m[value] = true
	}
	return m
}

// ErrExpired is wrapped by the error of a row that failed because it was too old to be published.
var ErrExpired = errors.New("expired")

// A Refusal is an attempt that the broker answered with a definite no, or a row that is not to be published at all.
type Refusal struct {
	ID      string // the identity of the row ([Row.Identity])
	Attempt int64  // the attempt as read
	Error   string
	Failed  bool // permanently
	Untried bool // nothing was published, so that no attempt is spent
	// Of is the row as it was read. The refusal is then written only to this version of it, unless other destinations
	// write into rows, too. Without it any version serves that has the same attempt.
	Of *Row
}

// Refuse writes refused attempts: the next attempt, the error, the time and, for rows that failed, the failure. It
// writes a row only if the row is unchanged since it was read. It returns the identities of the rows written and of
// those that another session keeps locked. The others have been changed by another session, unless a [*NoEffectError]
// names them. In a table without columns for any of this, every row counts as written.
func (t *Table) Refuse(ctx context.Context, refusals []Refusal) (written, locked []string, err error) {
	identities := each(refusals, func(r Refusal) string { return r.ID })
	if !t.writesRefusals() {
		return identities, nil, nil
	}
	column := func(oid uint32, value func(Refusal) []byte) []byte { return array(oid, each(refusals, value)) }
	which := array(t.rowOID, identities)
	asRead := column(pgtype.Int8OID, func(r Refusal) []byte { return number(r.Attempt) })
	version := column(pgtype.XIDOID, func(r Refusal) []byte {
		if r.Of == nil || t.config.shared() {
			return make([]byte, 4)
		}
		return binary.BigEndian.AppendUint32(nil, r.Of.version)
	})
	rows, err := t.query(ctx, limits{lock: lockPatience, first: t.writeLock()}, t.description.text("refuse.sql"),
		which, asRead,
		column(pgtype.Int8OID, func(r Refusal) []byte {
			if r.Untried {
				return number(r.Attempt)
			}
			return number(min(r.Attempt, t.maxAttempt()-1) + 1)
		}),
		column(pgtype.TextOID, func(r Refusal) []byte { return []byte(t.clean(r.Error)) }),
		column(pgtype.BoolOID, func(r Refusal) []byte {
			if r.Failed {
				return []byte{1}
			}
			return []byte{0}
		}),
		version)
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
	if locked, err = t.stillLocked(ctx, locked); err != nil {
		return nil, nil, fmt.Errorf("write refusals: %w", err)
	}
	if len(written)+len(locked) == len(refusals) {
		return written, locked, nil
	}
	rows, err = t.query(ctx, limits{lock: lockPatience}, t.description.text("unrefused.sql"), which, asRead, version)
	if err != nil {
		return nil, nil, fmt.Errorf("write refusals: %w", err)
	}
	done := set(slices.Concat(written, locked)) // in a table that keeps nothing else, every row is unchanged
	pointless := slices.DeleteFunc(firsts(rows), func(identity string) bool { return done[identity] })
	return written, locked, t.noEffect(pointless)
}

// A NoEffectError names rows that a statement should have written but left unchanged, although no session keeps them
// locked and the server reported no error. Writing them again has no effect until the database is changed.
type NoEffectError struct {
	Identities []string // the identities of the rows ([Row.Identity])
	SetupError
}

// noEffect returns the error about unchanged rows, nil if there are none.
func (t *Table) noEffect(identities []string) error {
	if len(identities) == 0 {
		return nil
	}
	return &NoEffectError{Identities: identities, SetupError: *t.ineffective()}
}

// ineffective is the problem of writes that the server accepts and does not do.
func (t *Table) ineffective() *SetupError {
	const none = "writing rows has no effect and gives no error: "
	const policies = "give the role a policy for updates of all rows"
	if t.relation.Policies {
		return problem(checkRights, policies+" (for deletes with "+t.config.Names.Of("Delete")+"), or the attribute "+
			"bypassrls", none+"row security is active for role %s, and lets it see rows that it may not write",
			t.relation.Role)
	}
	return problem(checkRights, "change the trigger or the rule, or "+policies+", or the attribute bypassrls",
		none+"a BEFORE trigger that returns NULL, a rule, or row security keeps role %s from it", t.relation.Role)
}

// WithoutEffect returns the identities that a [*NoEffectError] names, nil for any other error.
func WithoutEffect(err error) []string {
	if e, ok := errors.AsType[*NoEffectError](err); ok {
		return e.Identities
	}
	return nil
}
