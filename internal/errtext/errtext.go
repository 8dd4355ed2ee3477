// Package errtext formats errors for logs and for people.
package errtext

import (
	"net"
	"slices"
	"strings"
)

// Line returns an error's text on one line, the same text for the same problem. Several attempts at a connection, with and
// without TLS or to several addresses, give an error of several lines, often the same, and each connection that ends names a
// local port of its own. The text of no error is empty.
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
