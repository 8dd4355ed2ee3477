package outbox

import (
	"context"
	"encoding/json"
	"fmt"
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
	f := finder{relation: r, config: &config}
	topic := f.column(role{name: "topic"}, View{})
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
		if index.Predicate == "" {
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

// conjuncts splits conditions, as the server or the relay writes them, at their ands. Parentheses and the quotes around
// names are left out: conditions that differ in nothing else are mistaken for one another only when a read is chosen
// and advice is given, never in what is read.
func conjuncts(conditions ...string) (parts []string) {
	flat := strings.NewReplacer("(", "", ")", "", `"`, "", " AND ", " and ", " IS NULL", " is null", " IS NOT NULL",
		" is not null")
	for _, condition := range conditions {
		if condition != "" {
			parts = append(parts, strings.Split(flat.Replace(condition), " and ")...)
		}
	}
	return parts
}
