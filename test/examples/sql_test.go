package examples

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// tables makes the tables that the samples need: the recommended outbox, and the table of orders of the documents.
func tables(t *testing.T) *pgtest.Schema {
	t.Helper()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, claimed(t, "TestSQL")[0].text)
	return s
}

// The SQL of the documents runs from the first block to the last.
func TestSQL(t *testing.T) {
	t.Parallel()
	s := tables(t)
	for _, sample := range claimed(t, "TestSQL")[1:] {
		s.Exec(t, sample.text)
	}
	got := pgtest.Value[string](t, s,
		"select concat_ws(' ', topic, key, payload, headers->>'correlation-id') from outbox_messages")
	if got != `orders.placed ada {"cents": 4200, "customer": "ada"} checkout-7` {
		t.Errorf("the sample wrote %s", got)
	}
}

// The documents' statements about indexes agree with what the relay finds.
func TestIndexes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ddl            string
		useful, failed bool // before the documents' indexes are made
	}{
		"recommended": {sql.Schema(sql.Table{Name: "outbox_messages"}), true, true},
		"A":           {pgtest.ShapeA, true, true},
		"B":           {pgtest.ShapeB, true, true},
		"C":           {pgtest.ShapeC, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, c.ddl)
			check := func(when string, useful, failed bool) {
				table, err := outbox.Open(t.Context(), s.Pool, outbox.Config{Table: sql.Table{Name: "outbox_messages"}})
				if err != nil {
					t.Fatal(err)
				}
				if table.PendingIndexed() != useful || table.FailedIndexed() != failed {
					t.Errorf("%s: pending %v, failed %v", when, table.PendingIndexed(), table.FailedIndexed())
				}
			}
			check("as it is", c.useful, c.failed)
			for _, sample := range claimed(t, "TestSQL") {
				keyed := strings.Contains(sample.text, "hashtextextended") // these tables have no key
				if strings.HasPrefix(sample.text, "create index") && !keyed {
					s.Exec(t, sample.text)
				}
			}
			check("with the indexes of the documents", true, true)
		})
	}
}

// The Go sample is the code that the package compiles.
func TestGoIsCompiled(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("order.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, sample := range claimed(t, "TestGoIsCompiled") {
		if !strings.Contains(string(source), sample.text) {
			t.Errorf("examples/order.go does not have the sample of %s:%d", sample.document, sample.line)
		}
	}
}

func TestPlaceOrder(t *testing.T) {
	t.Parallel()
	s := tables(t)
	if err := PlaceOrder(t.Context(), s.Pool, "ada", 4200); err != nil {
		t.Fatal(err)
	}
	got := pgtest.Value[string](t, s, "select concat_ws(' ', topic, key, payload) from outbox_messages")
	if got != `orders.placed ada {"cents": 4200, "order": 1, "customer": "ada"}` {
		t.Errorf("the message is %s", got)
	}
	s.Exec(t, "alter table outbox_messages add check (key <> 'eve')")
	if err := PlaceOrder(t.Context(), s.Pool, "eve", 1); err == nil {
		t.Error("a message that could not be inserted causes no error")
	}
	if got := pgtest.Value[int](t, s, "select count(*) from orders"); got != 1 {
		t.Errorf("%d orders, want 1: without its message an order must be rolled back", got)
	}
}

var (
	insert      = regexp.MustCompile("insert into [^\"'`]+")
	placeholder = regexp.MustCompile(`%s|\?`)
)

// The statements in the samples of other languages run with values of the types that PostgreSQL expects.
func TestStatements(t *testing.T) {
	t.Parallel()
	for _, sample := range claimed(t, "TestStatements") {
		t.Run(sample.language, func(t *testing.T) {
			t.Parallel()
			s := tables(t)
			conn, err := s.Pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			for _, statement := range insert.FindAllString(sample.text, -1) {
				n := 0
				statement = placeholder.ReplaceAllStringFunc(statement, func(string) string { n++; return "$" + strconv.Itoa(n) })
				prepared, err := conn.Conn().Prepare(t.Context(), statement, statement)
				if err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
				var values []any
				for _, oid := range prepared.ParamOIDs {
					values = append(values,
						map[uint32]any{pgtype.TextOID: "ada", pgtype.Int4OID: 4200, pgtype.JSONBOID: `{"order": 1}`}[oid])
				}
				if _, err := conn.Exec(t.Context(), statement, values...); err != nil {
					t.Errorf("%s: %v", statement, err)
				}
			}
			if got := pgtest.Value[string](t, s,
				"select concat_ws(' ', o.customer, o.cents, m.topic, m.key, m.payload) from orders o, "+
					"outbox_messages m"); got != `ada 4200 ada ada {"order": 1}` {
				t.Errorf("the statements wrote %q", got)
			}
		})
	}
}

// newDatabase makes the database of the sample in docs/testing.md.
func newDatabase(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return tables(t).Pool
}
