package e2e

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// table is an outbox table in a separate schema.
type table struct {
	*pgtest.Schema
	t testing.TB
}

// newTable makes the recommended table, as `outbox-relay schema` prints it.
func newTable(t testing.TB) *table {
	t.Helper()
	return newShape(t, recommended(t))
}

// recommended returns what `outbox-relay schema` prints.
func recommended(t testing.TB) string {
	t.Helper()
	code, ddl, problems := runCommand(t, nil, "schema")
	if code != 0 {
		t.Fatalf("schema: status %d: %s", code, problems)
	}
	return ddl
}

func newShape(t testing.TB, ddl string) *table {
	t.Helper()
	tb := &table{Schema: pgtest.New(t), t: t}
	tb.Exec(t, ddl)
	return tb
}

// env returns the settings for this table and a broker, and the given further settings.
func (tb *table) env(publishURL string, more ...string) settings {
	return append(settings{"OUTBOX_DATABASE_URL=" + tb.URL, "OUTBOX_PUBLISH_URL=" + publishURL}, more...)
}

// insert commits n rows on the given number of keys, in one transaction, numbered from the given number on. The keys
// are k0, k1, ... in turns. Then it rolls back a transaction of ten more rows of the same kind.
func (tb *table) insert(topic string, from, n, keys int) {
	tb.t.Helper()
	const rows = `insert into outbox_messages (topic, key, payload, headers)
		select $1, 'k' || i % $4::int, jsonb_build_object('n', i, 'filler', repeat('x', 200)), '{"type": "test"}'
		from generate_series($2::int, $2::int + $3::int - 1) i order by i`
	tb.Exec(tb.t, rows, topic, from, n, keys)
	ctx := tb.t.Context()
	tx, err := tb.Pool.Begin(ctx)
	if err != nil {
		tb.t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, strings.ReplaceAll(rows, "'n', i", "'n', -1"), topic, from, 10, keys); err != nil {
		tb.t.Fatal(err)
	}
	if err := tx.Rollback(ctx); err != nil {
		tb.t.Fatal(err)
	}
}

// identity returns the server and the database in the form of message ids.
func (tb *table) identity() string {
	tb.t.Helper()
	return pgtest.Value[string](tb.t, tb.Schema, `select (select system_identifier from pg_control_system()) || '.' || oid
		from pg_database where datname = current_database()`)
}

// count counts the rows for which a condition holds.
func (tb *table) count(condition string, args ...any) int {
	tb.t.Helper()
	return int(pgtest.Value[int64](tb.t, tb.Schema, "select count(*) from outbox_messages where "+condition, args...))
}

const (
	isPending = "relayed_at is null and failed_at is null"
	isRelayed = "relayed_at is not null"
	isFailed  = "failed_at is not null"
	everyRow  = "true"
)

// checkUnspent checks that no row for which a condition holds has spent an attempt.
func (tb *table) checkUnspent(condition string) {
	tb.t.Helper()
	if spent := tb.count(condition + " and (attempt <> 1 or last_error is not null or failed_at is not null)"); spent > 0 {
		tb.t.Errorf("%d rows have spent an attempt", spent)
	}
}

// awaitDrained waits until no row is pending, as long as rows continue to be settled.
func (tb *table) awaitDrained() {
	tb.t.Helper()
	for left := tb.count(isPending); left > 0; {
		await(tb.t, "further rows are settled", func() bool { return tb.count(isPending) < left })
		left = tb.count(isPending)
	}
}

// awaitRelayed waits until at least n rows are relayed.
func (tb *table) awaitRelayed(n int) {
	tb.t.Helper()
	await(tb.t, "rows are relayed", func() bool { return tb.count(isRelayed) >= n })
}

// committed returns the ids that must arrive, by the number in the payload.
func (tb *table) committed() map[string]bool {
	tb.t.Helper()
	rows, err := tb.Pool.Query(tb.t.Context(), "select id::text from outbox_messages where failed_at is null")
	if err != nil {
		tb.t.Fatal(err)
	}
	defer rows.Close()
	ids := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			tb.t.Fatal(err)
		}
		ids[id] = true
	}
	if err := rows.Err(); err != nil {
		tb.t.Fatal(err)
	}
	return ids
}
