package e2e

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestPartitionsOfAnySchema applies `schema --partitioned` to a table of another schema than public, named by
// OUTBOX_TABLE or found by the search path: its partitions are created, used and dropped there, whatever search path
// the session has that asks for it.
func TestPartitionsOfAnySchema(t *testing.T) {
	t.Parallel()
	for name, named := range map[string]func(schema string) string{
		"search path":  func(string) string { return "outbox_messages" },
		"OUTBOX_TABLE": func(schema string) string { return schema + ".outbox_messages" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outbox := pgtest.New(t)
			command := func(env settings, args ...string) string {
				t.Helper()
				code, out, problems := runCommand(t, env, args...)
				if code != 0 {
					t.Fatalf("%v: status %d: %s", args, code, problems)
				}
				return out
			}
			outbox.Exec(t, command(settings{"OUTBOX_TABLE=" + named(outbox.Name)}, "schema", "--partitioned"))
			conn, err := outbox.Pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			if _, err := conn.Exec(t.Context(), "begin; set local search_path = pg_catalog; select "+outbox.Name+
				".outbox_messages_make_partitions(20); commit"); err != nil {
				t.Fatal(err)
			}
			const partitions = "select count(*) from pg_inherits i join pg_class c on c.oid = i.inhrelid where inhparent = " +
				"'outbox_messages'::regclass and relnamespace = $1::regnamespace"
			if n := pgtest.Value[int](t, outbox, partitions, outbox.Name); n != 21+1 {
				t.Errorf("%d partitions in the schema, not the default one and those of 21 days", n)
			}
			outbox.Exec(t, `create table outbox_messages_p20240501 partition of outbox_messages for values from ('2024-05-01')
				to ('2024-05-02');
				insert into outbox_messages (topic, payload, inserted_at, relayed_at) select 't', '{}', '2024-05-01 12:00',
				'2024-05-01 13:00'
				from generate_series(1, 100)`)
			if _, err := conn.Exec(t.Context(), "begin; set local search_path = pg_catalog; select "+outbox.Name+
				".outbox_messages_drop_partition('1 hour'); commit"); err != nil {
				t.Fatal(err)
			}
			if n := pgtest.Value[int](t, outbox, partitions, outbox.Name); n != 21+1 {
				t.Errorf("%d partitions, so that of May 2024 was not dropped", n)
			}
		})
	}
}
