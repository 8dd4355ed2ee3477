package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// A SetupError says why the configured table cannot be used as it is, and what to do about it.
type SetupError struct {
	Check   string // what is wrong with: table, columns or rights
	Problem string // what is wrong
	Remedy  string // what to do, a sentence
	Err     error  // what the server said, if it was asked to do something
}

func (e *SetupError) Error() string { return e.Problem + ": " + e.Remedy }

func (e *SetupError) Unwrap() error { return e.Err }

const (
	checkTable   = "table"
	checkColumns = "columns"
	checkRights  = "rights"
)

func problem(check, remedy, format string, args ...any) *SetupError {
	return &SetupError{Check: check, Problem: fmt.Sprintf(format, args...), Remedy: remedy}
}

// explain adds to an error of the server what to do about it, where a right has been lost.
func (t *Table) explain(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == insufficientPrivilege && !checked(e) {
		return &SetupError{Check: checkRights, Problem: fmt.Sprintf("%s (role %s)", e.Message, t.role), Remedy: grantRemedy(t.role), Err: err}
	}
	return err
}

const insufficientPrivilege = "42501"

// errAltered says that a column is of another type now.
var errAltered = errors.New("a column of the table has another type than when the table was opened")

// Changed reports whether err says that the table is no longer what [Open] found: a table, column or
// right is missing now. Then the table must be opened again.
func Changed(err error) bool {
	if errors.Is(err, errAltered) {
		return true
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch e.Code {
	case "42P01", // undefined_table
		"42703", // undefined_column
		insufficientPrivilege,
		"3F000", // invalid_schema_name
		"42883", // undefined_function: an operator is gone because a column's type has changed
		"42804", // datatype_mismatch
		"0A000": // feature_not_supported: "cached plan must not change result type"
		return true
	}
	return false
}

// unprepared reports whether err says that a prepared statement is of no use any more.
func unprepared(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "26000" || // invalid_sql_statement_name: somebody has taken it away
		e.Code == "0A000") // feature_not_supported: "cached plan must not change result type"
}

// Outdated reports whether err says that a write cannot succeed as it is phrased, whichever rows it is for: the table is no longer
// what [Open] found, which then must be done again. A right that is missing is no reason: what it is for stays.
func Outdated(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && Changed(err) && !unprepared(err) && e.Code != insufficientPrivilege && !within(e)
}

// within reports whether an error comes from inside a function that a statement has called, a trigger's for example.
func within(e *pgconn.PgError) bool { return e.InternalQuery != "" || e.Where != "" }

// checked reports whether an error is that of a row security policy's check, which has the code of a missing right.
func checked(e *pgconn.PgError) bool {
	return e.Code == insufficientPrivilege && e.Routine == "ExecWithCheckOptions"
}

// Rejected reports whether err says that the server understood a write and will not do it with one of its
// rows: a constraint, a trigger or a value is in the way. The other rows can be written without that one.
func Rejected(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || len(e.Code) != 5 {
		return false
	}
	switch e.Code[:2] {
	case "22", // data exception
		"23", // integrity constraint violation
		"44", // with check option violation
		"54", // program limit exceeded, say of an index entry
		"P0": // raised by a trigger
		return true
	case "08", "25", "40", "53", "55", "57", "58", "XX": // passing, or the server's own
		return false
	}
	// Whatever else a function raises is about the row for which it was called.
	return within(e) || checked(e) || e.Code == "0A000" && e.Routine == "RewriteQuery" // a rule that a refusal cannot go through
}

// TimedOut reports whether err says that a statement has taken longer than it may. With fewer rows it may end in time.
func TimedOut(err error) bool { return Cancelled(err) || errors.Is(err, context.DeadlineExceeded) }

// Cancelled reports whether err says that the server has ended a statement that took longer than it may.
func Cancelled(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "57014" // query_canceled
}

// Locked reports whether err says that somebody else keeps a row or the table locked.
func Locked(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "55P03" // lock_not_available
}

// LockedWithin reports whether err says that a lock was met by what a statement does for some of its rows, in a trigger or
// for a foreign key, not by the statement as a whole.
func LockedWithin(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && Locked(err) && within(e)
}
