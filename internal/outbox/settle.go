package outbox

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

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

// ErrLocked and ErrRewritten say why a row was not written: another session keeps it locked, or somebody has changed it
// since it was read. Where row security is active, a row that a refusal meets locked counts as one that it hides.
var (
	ErrLocked    = errors.New("locked by another session")
	ErrRewritten = errors.New("changed since it was read")
)

// Settle marks or deletes accepted rows. It may be repeated. It says of each row that is still pending afterwards, by
// its identity, why it was not settled: [ErrLocked], [ErrRewritten] or a [*SetupError]. The others are settled.
//
// If another session keeps one of the rows locked for longer than a moment, no row is settled and the error is
// [Locked]. If free is true, the rows that no other session keeps locked are settled, which costs the database more;
// then the error is Locked if a trigger or a foreign key meets a lock.
//
// Settle looks for the rows at the places where they were read, which saves a tenth of a mark's cost in the database,
// or by their identities where places do not lead to rows. It settles the versions that were read, so that nothing is
// marked that no broker has. A row that has moved, or of which there is another version because another destination has
// marked it, is read again for that.
func (t *Table) Settle(ctx context.Context, rows []*Row, free bool) (map[string]error, error) {
	once := t.settleAll
	if free {
		once = t.settleFree
	}
	unwritten := map[string]error{}
	for tries := 0; len(rows) > 0; tries++ {
		pending, err := once(ctx, rows, unwritten)
		if err != nil {
			return nil, fmt.Errorf("settle rows: %w", err)
		}
		of, changed := byIdentity(rows), map[string]*Row{}
		for _, values := range pending {
			identity := string(values[0])
			r, place := of[identity], values[2]
			if r != nil &&
				(binary.BigEndian.Uint32(values[1]) != r.version || place != nil && [6]byte(place) != r.place) {
				changed[identity] = r
			} else {
				unwritten[identity] = t.ineffective()
			}
		}
		rows = nil
		if tries < mostRereads {
			if rows, err = t.reread(ctx, changed); err != nil {
				return nil, fmt.Errorf("settle rows: %w", err)
			}
		}
		for identity := range changed {
			unwritten[identity] = ErrRewritten
		}
	}
	return unwritten, nil
}

// settleAll settles rows, and returns those that are still pending although it could write them.
func (t *Table) settleAll(ctx context.Context, rows []*Row, _ map[string]error) (pending [][][]byte, err error) {
	file, parameters := "settle.sql", [][]byte{array(t.rowOID, identitiesOf(rows)), versionsOf(rows)}
	if t.mapping.place != noPlace {
		places := each(rows, func(r *Row) []byte { return r.place[:] })
		file, parameters = "settle_here.sql", append(parameters, array(pgtype.TIDOID, places))
	}
	l := limits{lock: lockPatience}
	results, err := t.send(ctx, l, request{statement: t.description.text(file), parameters: parameters})
	if err != nil || results[0].CommandTag.RowsAffected() >= int64(len(rows)) {
		return nil, err
	}
	// The remaining rows were settled or deleted by another session, or by this statement if its answer was lost, or
	// they have changed, or nothing was done.
	return t.query(ctx, l, t.description.text("unsettled.sql"), parameters[0])
}

// settleFree settles the rows that no other session keeps locked, and notes the others. It returns those that are still
// pending although it could write them.
func (t *Table) settleFree(ctx context.Context, rows []*Row, unwritten map[string]error) ([][][]byte, error) {
	d, which := t.description, [][]byte{array(t.rowOID, identitiesOf(rows))}
	results, err := t.send(ctx, limits{lock: freePatience, first: t.writeLock()},
		request{statement: d.text("lock.sql") + " skip locked", parameters: which},
		request{statement: d.text("settle_free.sql"), parameters: append(which, versionsOf(rows))},
		request{statement: d.text("unsettled.sql"), parameters: which})
	if err != nil {
		return nil, err
	}
	free := map[string]bool{}
	for _, row := range results[0].Rows {
		free[string(row[0])] = true
	}
	return slices.DeleteFunc(results[2].Rows, func(values [][]byte) bool {
		identity := string(values[0])
		if !free[identity] {
			unwritten[identity] = ErrLocked
		}
		return !free[identity] // no other session could write the others, and they are pending all the same
	}), nil
}

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

// writeLock is a statement that takes the table's lock for writing rows, and does nothing. It comes first where a
// statement would take a weaker lock on the table before: a migration that holds a lock for which that statement then
// waits, and that asks for another one itself, would be ended by the server because of a deadlock, at once. To explain
// a statement fires no trigger of the table.
func (t *Table) writeLock() string { return t.description.text("lock_table.sql") }

func identitiesOf(rows []*Row) []string { return each(rows, (*Row).Identity) }

// versionsOf encodes the versions of rows as an array.
func versionsOf(rows []*Row) []byte {
	return array(pgtype.XIDOID, each(rows, func(r *Row) []byte {
		return binary.BigEndian.AppendUint32(nil, r.version)
	}))
}

// firsts returns the first value of each row.
func firsts(rows [][][]byte) []string {
	return each(rows, func(row [][]byte) string { return string(row[0]) })
}

// ErrExpired is wrapped by the error of a row that failed because it was too old to be published.
var ErrExpired = errors.New("expired")

// A Refusal is an attempt at a row that the broker answered with a definite no, or a row that is not to be published at
// all. It is written only to the version of the row that was read. If other destinations write into rows, it is written
// to any version that has the same attempt.
type Refusal struct {
	*Row
	Error   string
	Failed  bool // permanently
	Untried bool // nothing was published, so that no attempt is spent
}

// Refuse writes refused attempts: the next attempt, the error, the time and, for rows that failed, the failure. It
// writes a row only if the row is unchanged since it was read, and waits for no lock. It says of each row that it did
// not write why, as [Table.Settle] does. In a table without columns for any of this, every row counts as written.
func (t *Table) Refuse(ctx context.Context, refusals []Refusal) (unwritten map[string]error, err error) {
	if t.description["refusal"] == "" {
		return nil, nil
	}
	column := func(oid uint32, value func(Refusal) []byte) []byte { return array(oid, each(refusals, value)) }
	// Somebody may have written any number into a row, and one that does not fit keeps the whole statement from ending.
	largest := cmp.Or(map[uint32]int64{pgtype.Int2OID: math.MaxInt16, pgtype.Int4OID: math.MaxInt32}[t.Attempt.OID],
		math.MaxInt64)
	rows, err := t.query(ctx, limits{lock: lockPatience, first: t.writeLock()}, t.description.text("refuse.sql"),
		array(t.rowOID, each(refusals, func(r Refusal) string { return r.Identity() })),
		column(pgtype.Int8OID, func(r Refusal) []byte { return number(r.Attempt) }),
		column(pgtype.Int8OID, func(r Refusal) []byte {
			if r.Untried {
				return number(r.Attempt)
			}
			return number(min(r.Attempt, largest-1) + 1)
		}),
		column(pgtype.TextOID, func(r Refusal) []byte { return []byte(t.Clean(r.Error)) }),
		column(pgtype.BoolOID, func(r Refusal) []byte {
			if r.Failed {
				return []byte{1}
			}
			return []byte{0}
		}),
		column(pgtype.XIDOID, func(r Refusal) []byte {
			if t.config.shared() {
				return make([]byte, 4)
			}
			return binary.BigEndian.AppendUint32(nil, r.version)
		}))
	if err != nil {
		return nil, fmt.Errorf("write refusals: %w", err)
	}
	unwritten = map[string]error{}
	for _, r := range refusals {
		unwritten[r.Identity()] = ErrRewritten
	}
	const written, beingLocked = 1, 2
	for _, row := range rows {
		switch identity, what := string(row[0]), ordinal(row[1]); {
		case what == written:
			delete(unwritten, identity)
		case what == beingLocked && !t.relation.Policies:
			unwritten[identity] = ErrLocked
		default:
			unwritten[identity] = t.ineffective()
		}
	}
	return unwritten, nil
}

// ineffective is the problem of writes that the server accepts and does not do.
func (t *Table) ineffective() *SetupError {
	return problem(checkRights, "change the trigger or the rule; or give the role a policy for updates of all rows "+
		"(for deletes with "+t.config.Names.Of("Delete")+"), or the attribute bypassrls",
		"writing rows has no effect and gives no error: a BEFORE trigger that returns NULL or OLD, a rule, or row "+
			"security keeps role %s from it", t.relation.Role)
}
