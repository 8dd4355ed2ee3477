// Package errtext formats errors for logs and for people.
package errtext

import (
	"errors"
	"regexp"
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

// localPort is the local address in the text of a net.OpError.
var localPort = regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+|\[[0-9a-f:.%\w]+\]|):\d+->`)

// lasting returns an error's text without local ports.
func lasting(err error) string {
	text := localPort.ReplaceAllLiteralString(err.Error(), "")
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		if full := e.Error() + more(e); !strings.Contains(text, full) { // a problem may quote its own cause
			text = strings.ReplaceAll(text, e.Error(), full)
		}
	}
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
