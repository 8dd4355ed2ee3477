// Package sql holds the statements that the relay sends, one file for each, and is the only place where configured
// identifiers are quoted.
package sql

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A Table is the configured name of the outbox table, as written and not yet looked up.
type Table struct {
	Schema string // if empty, found through the search path
	Name   string
}

// ParseTable parses a table name with an optional schema. Names are taken literally, like quoted identifiers in SQL:
// Orders is not orders. A name that contains a dot is written in double quotes, and a double quote in it is written
// twice.
func ParseTable(s string) (Table, error) {
	const name = `("(?:[^"]|"")+"|[^".][^.]*)`
	parts := regexp.MustCompile(`(?s)^(?:` + name + `\.)?` + name + `$`).FindStringSubmatch(s)
	if parts == nil {
		return Table{}, fmt.Errorf("table name %q: write table or schema.table", s)
	}
	for i, part := range parts {
		if strings.HasPrefix(part, `"`) {
			parts[i] = strings.ReplaceAll(part[1:len(part)-1], `""`, `"`)
		}
	}
	return Table{Schema: parts[1], Name: parts[2]}, nil
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
		return `E'` + strings.ReplaceAll(s, `\`, `\\`) + `'`
	}
	return "'" + s + "'"
}

// Literals returns string constants separated by commas.
func Literals(texts []string) string {
	constants := make([]string, len(texts))
	for i, text := range texts {
		constants[i] = Literal(text)
	}
	return strings.Join(constants, ", ")
}
