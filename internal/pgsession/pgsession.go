// Package pgsession makes the sessions in which the relay works its own: whatever the server, the database, the role,
// the URL and PG* variables set, a text that reaches a broker, a key's hash and a plan are the same.
//
// A session that belongs to its connection is changed once, by [Own]. One that a pooler lends for a transaction may not
// be changed beyond it, since the next client would meet the relay's settings, and the relay those of others: there
// each transaction begins with the settings ([First], [Within]). The same holds for a connection that the relay did not
// open.
package pgsession

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// Startup sets what is sent when a connection is opened. PgBouncer passes on just these parameters, and remembers them
// for each of its clients; it refuses others. Other settings of the relay that the URL or the environment gives are
// removed, and so are words of PostgreSQL's own client that the relay does not follow.
func Startup(parameters map[string]string) {
	if name := parameters["fallback_application_name"]; name != "" && parameters["application_name"] == "" {
		parameters["application_name"] = name
	}
	maps.DeleteFunc(parameters, func(name, _ string) bool {
		return slices.ContainsFunc(settings(), func(s setting) bool { return (s.given || s.unsent) && s.named(name) })
	})
	parameters["client_encoding"] = "UTF8"
	parameters["datestyle"] = "ISO, MDY"
	parameters["timezone"] = "UTC"
	parameters["standard_conforming_strings"] = "on"
}

const ownKey = "outbox-relay: own session"

// Own changes the settings of a connection's session, unless the session is a pooler's. A pooler invents the process id
// that it reports to its clients at login.
func Own(ctx context.Context, conn *pgx.Conn) error {
	var own bool
	statement := change(strconv.FormatUint(uint64(conn.PgConn().PID()), 10))
	if err := conn.QueryRow(ctx, statement, pgx.QueryExecModeExec).Scan(&own, nil); err != nil {
		return fmt.Errorf("change the session's settings: %w", err)
	}
	if own {
		conn.PgConn().CustomData()[ownKey] = true
	}
	return nil
}

// IsOwn reports whether the session has been changed by [Own]. If not, each transaction must begin with the settings.
func IsOwn(conn *pgx.Conn) bool { return conn.PgConn().CustomData()[ownKey] == true }

// First returns the statements with which each transaction must begin where the session is not the relay's own. Their
// results mean nothing. The isolation level must be set by a command of its own before anything is read.
func First() []string {
	return []string{"set transaction_isolation = 'read committed'", change("null")}
}

// Within gives a transaction, which must have just begun, the relay's settings, unless the session has them.
func Within(ctx context.Context, tx pgx.Tx) error {
	if IsOwn(tx.Conn()) {
		return nil
	}
	if _, err := tx.Exec(ctx, change("null"), pgx.QueryExecModeExec); err != nil {
		return fmt.Errorf("change the transaction's settings: %w", err)
	}
	return nil
}
