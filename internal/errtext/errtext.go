// Package errtext formats errors for logs and for people.
package errtext

import (
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Line returns an error's text on one line, the same text for the same problem. Several attempts at a connection, with
// and without TLS or to several addresses, give an error of several lines, often the same, and each connection that
// ends names a local port of its own. The text of no error is empty.
func Line(err error) string {
	if err == nil {
		return ""
	}
	var lines []string
	for line := range strings.Lines(lasting(err)) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "; ")
	return strings.ReplaceAll(text, ":; ", ": ")
}

// lasting returns an error's text without local ports.
func lasting(err error) string {
	text := err.Error()
	visit(err, func(e error) {
		switch e := e.(type) { //nolint:errorlint // visit unwraps
		case *pgconn.PgError:
			if full := e.Error() + more(e); !strings.Contains(text, full) { // a problem may quote its own cause
				text = strings.ReplaceAll(text, e.Error(), full)
			}
		case *net.OpError:
			if e.Source != nil && e.Addr != nil {
				without := *e
				without.Source = nil
				text = strings.ReplaceAll(text, e.Error(), without.Error())
			}
		case *net.DNSError:
			if e.IsTimeout {
				without := *e
				without.Err = "timeout" // in place of the error of a connection to the name server
				text = strings.ReplaceAll(text, e.Error(), without.Error())
			}
		}
	})
	return text
}

// more is what a server's error says besides its message, in the way of PostgreSQL's own clients: the detail and the
// hint. They are left out where they may hold values of a row (of data exceptions, constraints and checks), or whatever
// a function in the database puts there, and where they differ each time (of deadlocks, with process ids).
func more(e *pgconn.PgError) (text string) {
	if len(e.Code) != 5 || e.Where != "" || e.InternalQuery != "" ||
		slices.Contains([]string{"21", "22", "23", "27", "40", "44", "P0"}, e.Code[:2]) {
		return ""
	}
	if e.Detail != "" {
		text = "; detail: " + e.Detail
	}
	if e.Hint != "" {
		text += "; hint: " + e.Hint
	}
	return text
}

// visit calls do with err and with every error that it wraps.
func visit(err error, do func(error)) {
	do(err)
	switch e := err.(type) { //nolint:errorlint // this unwraps
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			visit(inner, do)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			visit(inner, do)
		}
	}
}
