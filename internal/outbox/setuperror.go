package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// A SetupError says why the configured table cannot be used, and what to do about it.
type SetupError struct {
	finding.Finding
	Err error // the server's error, if a statement failed
}

func (e *SetupError) Error() string { return e.Found + ": " + e.Remedy }

func (e *SetupError) Unwrap() error { return e.Err }

const (
	checkTable   = "table"
	checkColumns = "columns"
	checkRights  = "rights"
	checkWrites  = "writes"
)

func problem(check, remedy, format string, args ...any) *SetupError {
	return &SetupError{Finding: finding.Finding{
		Severity: finding.Error, Check: check, Found: fmt.Sprintf(format, args...), Remedy: remedy,
	}}
}

// server returns the server's error that is in err, and one without a code if there is none.
func server(err error) *pgconn.PgError {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e
	}
	return &pgconn.PgError{}
}

const (
	insufficientPrivilege = "42501"
	featureNotSupported   = "0A000"
	undefinedObject       = "42704"
)

// errAltered reports that a column's type has changed.
var errAltered = errors.New("a column of the table has another type than when the table was opened")

// Changed reports whether err says that the table is no longer as [Open] found it: a table, column or right is missing
// now. The table must then be opened again.
func Changed(err error) bool {
	return slices.Contains(changes, server(err).Code) || errors.Is(err, errAltered)
}

// changes are undefined_table, undefined_column, invalid_schema_name; undefined_function, since an operator is gone
// when a column's type has changed; datatype_mismatch, and "cached plan must not change result type".
var changes = []string{"42P01", "42703", "3F000", "42883", "42804", featureNotSupported, insufficientPrivilege}

// unprepared reports whether err says that a prepared statement is no longer usable: another session has removed it
// (invalid_sql_statement_name), or its result has another type.
func unprepared(err error) bool {
	code := server(err).Code
	return code == "26000" || code == featureNotSupported
}

// Outdated reports whether err says that a write cannot succeed as it is phrased, whichever rows it is for: the table
// is no longer as [Open] found it and must be opened again. A missing right is not such an error: the columns are still
// there.
func Outdated(err error) bool {
	e := server(err)
	return e.Code != "" && Changed(err) && !unprepared(err) && e.Code != insufficientPrivilege && !within(e)
}

// within reports whether an error comes from inside a function that a statement has called, for example a trigger's.
func within(e *pgconn.PgError) bool { return e.InternalQuery != "" || e.Where != "" }

// checked reports whether an error comes from a row security policy's check, which has the code of a missing right.
func checked(e *pgconn.PgError) bool {
	return e.Code == insufficientPrivilege && e.Routine == "ExecWithCheckOptions"
}

// Rejected reports whether err says that the server understood a write but rejects it because of one of its rows: a
// constraint, a trigger or a value is in the way. The other rows can be written without that row.
func Rejected(err error) bool {
	e := server(err)
	switch class := e.Code[:min(len(e.Code), 2)]; class {
	// Data exception, integrity constraint violation, with check option violation, program limit exceeded (by an index
	// entry, say), and what a trigger raises.
	case "22", "23", "44", "54", "P0":
		return true
	case "", "08", "25", "40", "53", "55", "57", "58", "XX": // no answer, or temporary, or the server's own
		return false
	}
	// Any other error that a function raises is about the row for which it was called. So is a rule that a refusal
	// cannot pass.
	return within(e) || checked(e) || e.Code == featureNotSupported && e.Routine == "RewriteQuery"
}

// Transient reports whether err says that another transaction was in the way, and that the same statement may succeed
// at once: a serialization failure or a deadlock. The database answers as it should.
func Transient(err error) bool {
	e := server(err)
	return strings.HasPrefix(e.Code, "40") && !within(e) // a trigger may raise it each time
}

// TimedOut reports whether err says that a statement has exceeded its time limit. With fewer rows it may end in time.
func TimedOut(err error) bool { return Cancelled(err) || errors.Is(err, context.DeadlineExceeded) }

// Cancelled reports whether err says that the server has ended a statement that exceeded its time limit.
func Cancelled(err error) bool { return server(err).Code == "57014" } // query_canceled

// Locked reports whether err says that another session keeps a row or the table locked.
func Locked(err error) bool { return server(err).Code == "55P03" } // lock_not_available

// LockedWithin reports whether err says that a lock was met not by the statement as a whole, but by a trigger or a
// foreign key check for some of its rows.
func LockedWithin(err error) bool { return Locked(err) && within(server(err)) }

// Unreachable reports whether err says that the database could not be reached: no connection was available, or one
// ended without an answer. An error with which the server answered a statement does not count, nor does an error of
// [Open] about the table.
func Unreachable(err error) bool {
	_, connects := errors.AsType[*pgconn.ConnectError](err)
	_, setup := errors.AsType[*SetupError](err)
	switch code := server(err).Code; {
	case err == nil || errors.Is(err, context.Canceled):
		return false
	case connects:
		return true
	case code != "":
		// A connection exception, admin_shutdown, crash_shutdown, cannot_connect_now or idle_session_timeout.
		return strings.HasPrefix(code, "08") || slices.Contains([]string{"57P01", "57P02", "57P03", "57P05"}, code)
	}
	return !setup
}
