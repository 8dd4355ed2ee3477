package outbox

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// Unreachable reports whether err says that the database could not be reached: no connection was available, or one
// ended without an answer. An error with which the server answered a statement does not count, nor does an error of
// [Open] about the table.
func Unreachable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "57P01", // admin_shutdown
			"57P02", // crash_shutdown
			"57P03", // cannot_connect_now
			"57P05": // idle_session_timeout
			return true
		}
		return len(e.Code) == 5 && e.Code[:2] == "08" // connection exception
	}
	_, setup := errors.AsType[*SetupError](err)
	return !setup
}
