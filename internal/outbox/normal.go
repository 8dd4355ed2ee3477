package outbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/sql"
)

// normalise finds the indexes that hold only rows that a view takes. A predicate is printed as its author wrote it, so
// the predicates and the conditions of the views are compared as the planner sees them: only the planner decides
// whether an index serves a read. If each view takes every row, nothing is asked.
func (r *relation) normalise(ctx context.Context, conn *pgx.Conn, config Config) error {
	p := parts{relation: r, names: config.Names, named: config.Columns, preferred: config.Preferred}
	topic, _, _ := p.find("topic")
	if !topic.Has() {
		return nil
	}
	r.normal = map[string][]string{}
	for _, view := range config.views() {
		filter := config.takes(view, topic)
		if filter == pattern.Always || r.normal[filter] != nil {
			continue
		}
		var err error
		if r.normal[filter], err = r.normalForm(ctx, conn, filter); err != nil {
			return err
		}
	}
	if len(r.normal) == 0 {
		return nil
	}
	for _, index := range r.Indexes {
		if !slices.ContainsFunc(index.conjuncts, func(part string) bool { return !nullTest.MatchString(part) }) {
			continue
		}
		if parts, err := r.normalForm(ctx, conn, index.Predicate); err != nil {
			return err
		} else if parts != nil {
			index.conjuncts = parts
		}
	}
	return nil
}

// nullTest is a part of a predicate that has only one form, but for the quotes.
var nullTest = regexp.MustCompile(`^(?:("(?:[^"]|"")+")|([a-z_][a-z0-9_$]*)) (?i:(is (?:not )?null))$`)

// part returns a part of a predicate without the parentheses around it. Tests for NULL are as the relay writes them.
func part(condition string) string {
	condition = bare(condition)
	if m := nullTest.FindStringSubmatch(condition); m != nil {
		return cmp.Or(m[1], sql.Quote(m[2])) + " " + strings.ToLower(m[3])
	}
	return condition
}

// oneRow is the alias of the row in the statement that shows a condition. It stands before each column.
const oneRow = "one row"

// normalForm returns the parts of a condition on rows of the table, joined by and, as the planner sees them. It returns
// none if the server does not show them, or if no row can meet the condition.
func (r *relation) normalForm(ctx context.Context, conn *pgx.Conn, condition string) ([]string, error) {
	names := description{"table": r.table.Quoted(), "row": sql.Quote(oneRow), "condition": condition}
	statement := names.text("normal_form.sql")
	var text []byte
	err := pgsession.Try(ctx, conn, func() error {
		return conn.QueryRow(ctx, statement, pgx.QueryExecModeExec).Scan(&text)
	})
	if code := server(err).Code; code != "" && !passing(code) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("ask for a condition's normal form: %w", err)
	}
	var plans []struct {
		Plan struct{ Filter string }
	}
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
		return nil, fmt.Errorf("ask for a condition's normal form: %w", err)
	}
	return conjuncts(strings.ReplaceAll(plans[0].Plan.Filter, sql.Quote(oneRow)+".", "")), nil
}

// conjuncts splits a condition, as the server prints it, at the ands that are in no parentheses except those around the
// whole condition. Tests for NULL are then written as the relay writes them: "column" is null.
func conjuncts(condition string) (parts []string) {
	const and = " AND "
	condition = bare(condition)
	start := 0
	for i := 0; i < len(condition); {
		if strings.HasPrefix(condition[i:], and) {
			parts = append(parts, part(condition[start:i]))
			i += len(and)
			start = i
		} else {
			i = after(condition, i)
		}
	}
	if condition != "" {
		parts = append(parts, part(condition[start:]))
	}
	return parts
}

// bare removes the parentheses around a whole condition.
func bare(condition string) string {
	for strings.HasPrefix(condition, "(") && after(condition, 0) == len(condition) {
		condition = condition[1 : len(condition)-1]
	}
	return condition
}

// after returns the place after the character at a place, or after the quotation or parentheses that begin there. A
// doubled quote ends and begins a quotation.
func after(text string, i int) int {
	switch text[i] {
	case '\'', '"':
		return i + 2 + strings.IndexByte(text[i+1:], text[i])
	case '(', '[':
		for i++; i < len(text) && text[i] != ')' && text[i] != ']'; {
			i = after(text, i)
		}
	}
	return min(i+1, len(text))
}
