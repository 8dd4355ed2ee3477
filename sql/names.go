// Package sql holds the statements that the relay sends, one file for each, and is the only place where configured identifiers
// are quoted.
package sql

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A Table is the configured name of the outbox table, as written and not yet looked up.
type Table struct {
	Schema string // if empty, found through the search path
	Name   string
}

// ParseTable parses a table name with an optional schema. Names are taken literally, like quoted identifiers in SQL: Orders is
// not orders. A name that contains a dot is written in double quotes, and a double quote in it is written twice.
func ParseTable(s string) (Table, error) {
	parts, err := split(s)
	if err != nil {
		return Table{}, err
	}
	switch len(parts) {
	case 1:
		return Table{Name: parts[0]}, nil
	case 2:
		return Table{Schema: parts[0], Name: parts[1]}, nil
	default:
		return Table{}, fmt.Errorf("table name %q: write table or schema.table", s)
	}
}

// split cuts s at the dots outside double quotes.
func split(s string) ([]string, error) {
	var parts []string
	for rest := s; ; {
		var part string
		if strings.HasPrefix(rest, `"`) {
			end := closingQuote(rest)
			if end < 0 {
				return nil, fmt.Errorf("table name %q: the closing double quote is missing", s)
			}
			part, rest = strings.ReplaceAll(rest[1:end], `""`, `"`), rest[end+1:]
		} else if dot := strings.IndexByte(rest, '.'); dot >= 0 {
			part, rest = rest[:dot], rest[dot:]
		} else {
			part, rest = rest, ""
		}
		if part == "" {
			return nil, fmt.Errorf("table name %q: a part is empty", s)
		}
		parts = append(parts, part)
		if rest == "" {
			return parts, nil
		}
		if rest[0] != '.' || len(rest) == 1 {
			return nil, fmt.Errorf("table name %q: write table or schema.table", s)
		}
		rest = rest[1:]
	}
}

// closingQuote returns the index of the double quote that closes a name, -1 if there is none. Two double quotes in a row are
// part of the name.
func closingQuote(s string) int {
	for at := 1; ; at += 2 {
		quote := strings.IndexByte(s[at:], '"')
		if quote < 0 {
			return -1
		}
		if at += quote; !strings.HasPrefix(s[at+1:], `"`) {
			return at
		}
	}
}

// String returns the name for display, without quotes.
func (t Table) String() string {
	if t.Schema == "" {
		return t.Name
	}
	return t.Schema + "." + t.Name
}

// Quoted returns the name for use in a statement.
func (t Table) Quoted() string {
	if t.Schema == "" {
		return Quote(t.Name)
	}
	return Quote(t.Schema) + "." + Quote(t.Name)
}

// Quote returns an identifier for use in a statement.
func Quote(identifier string) string { return pgx.Identifier{identifier}.Sanitize() }

// Literal returns a string constant for use in a statement, for the few places that take no parameters.
func Literal(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\x00", ""), "'", "''")
	if strings.Contains(s, `\`) {
		return ` E'` + strings.ReplaceAll(s, `\`, `\\`) + `'`
	}
	return "'" + s + "'"
}
