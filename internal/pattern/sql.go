package pattern

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/outbox-relay/outbox-relay/sql"
)

// SQL returns the condition that corresponds to [Takes], or [Always] if that takes every topic. The topic is an SQL
// expression of type text that is never null and compares byte by byte: see [Text].
// The condition holds constants only, so that it can stand in an index's predicate. The same patterns give the same
// condition in any order, so that such an index still fits.
func SQL(topic string, patterns []string) string {
	taken, excluded := split(patterns)
	return And(anyFits(topic, taken), Not(anyFits(topic, excluded)))
}

// Conditions that are always true, and never.
const (
	Always = "true"
	Never  = "false"
)

// And returns the conjunction of two conditions.
func And(a, b string) string {
	switch {
	case a == Always || b == Never:
		return b
	case b == Always || a == Never:
		return a
	}
	return a + " and " + b
}

// Not returns the opposite of a condition.
func Not(condition string) string {
	switch condition {
	case Always:
		return Never
	case Never:
		return Always
	}
	return "not (" + condition + ")"
}

// Text returns the expression for a topic column as [SQL] needs it. NULL becomes the empty text, which patterns may
// match or not. The column's own collation may treat different texts as equal, and may not support searching for parts.
func Text(column string) string {
	return "(coalesce(" + column + `::text, '') collate "C")`
}

// anyFits returns the condition that one of the patterns matches, in parentheses if it has several parts.
func anyFits(topic string, patterns []string) string {
	patterns = slices.Clone(patterns)
	slices.Sort(patterns)
	var whole, parts []string
	for _, pattern := range slices.Compact(patterns) {
		switch {
		case pattern != "" && strings.Trim(pattern, "*") == "":
			return Always
		case !utf8.ValidString(pattern) || strings.Contains(pattern, "\x00"):
			// The server would refuse the statement, and it holds no such text.
		case strings.Contains(pattern, "*"):
			parts = append(parts, topic+" like "+sql.Literal(like.Replace(pattern)))
		default:
			whole = append(whole, pattern)
		}
	}
	if len(whole) > 0 {
		parts = append([]string{topic + " in (" + sql.Literals(whole) + ")"}, parts...)
	}
	switch len(parts) {
	case 0:
		return Never
	case 1:
		return parts[0]
	}
	return "(" + strings.Join(parts, " or ") + ")"
}

// like turns a pattern into a pattern of SQL's like, where a backslash escapes the next character.
var like = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%")
