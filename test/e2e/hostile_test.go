package e2e

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// hostileTable is a table with a column of each type whose text depends on a session's settings.
const hostileTable = `
alter table outbox_messages add column code bytea, add column due timestamptz, add column span interval, add column
ratio float8,
  add column price money, add column day date;`

// TestHostileRole relays and operates as a role whose settings, and whose URL's, change how values are written, what
// statements mean, how they are planned and how long they may take: all arrives as from any other role.
func TestHostileRole(t *testing.T) {
	t.Parallel()
	b, outbox := newKafka(t, endpoint(t, "TEST_KAFKA_URL")), newShape(t, "")
	u, err := url.Parse(outbox.HostileURL(t))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("DateStyle", "SQL, DMY")
	q.Set("IntervalStyle", "iso_8601")
	q.Set("default_transaction_isolation", "repeatable read")
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	smoke(t, b, outbox, settings{
		"OUTBOX_DATABASE_URL=" + u.String(), "PGOPTIONS=-c bytea_output=escape",
		"PGTZ=America/New_York",
	})
}

// TestHostileDatabase is the same for the settings of a database, through PgBouncer, which lends a session for a
// transaction.
func TestHostileDatabase(t *testing.T) {
	t.Parallel()
	b, outbox := newKafka(t, endpoint(t, "TEST_KAFKA_URL")), &table{Schema: pgtest.NewHostileDatabase(t), t: t}
	direct, err := url.Parse(outbox.URL)
	if err != nil {
		t.Fatal(err)
	}
	pooled, err := url.Parse(endpoint(t, "TEST_PGBOUNCER_URL"))
	if err != nil {
		t.Fatal(err)
	}
	pooled.Path = direct.Path
	smoke(t, b, outbox, settings{
		"OUTBOX_DATABASE_URL=" + pooled.String(),
		"OUTBOX_DATABASE_DIRECT_URL=" + direct.String(),
	})
}

// smoke lets a relay and the commands work on rows of all kinds.
func smoke(t *testing.T, b broker, outbox *table, env settings) {
	t.Helper()
	topic, missing := uniqueTopic(), uniqueTopic()
	numbered, unnumbered := topic+"-0.3333333333333333", missing+"-0.30000000000000004"
	b.create(t, numbered)
	env = append(env, "OUTBOX_LISTEN_CHANNEL="+outbox.Name+topic, "OUTBOX_TABLE="+outbox.Name+".outbox_messages")
	code, ddl, problems := runCommand(t, env, "schema", "--doorbell")
	if code != 0 {
		t.Fatalf("schema: status %d: %s", code, problems)
	}
	outbox.Exec(t, ddl)
	outbox.Exec(t, hostileTable)
	env = append(env, "OUTBOX_PUBLISH_URL="+b.url(), "OUTBOX_TOPIC={topic}-{ratio}", "OUTBOX_KEY=column:code",
		"OUTBOX_COLUMNS=header.due:due,header.span:span,header.ratio:ratio,header.price:price,header.day:day,header.code:code")
	r := startRelay(t, env)
	r.awaitReady()
	await(t, "it listens", func() bool { return r.metric("listener_up") == "1" })
	const insert = `insert into outbox_messages (topic, payload, headers, code, due, span, ratio, price, day) values ($1,
		'{"name": "André €", "n": 1}', $2, '\x6b0131', '2026-04-03 05:06:07.89Z', '1 day 2 hours', 1::float8 / 3,
		1234.5::float8::numeric::money,
		'2026-04-03')`
	outbox.Exec(t, insert, topic, `{"author": "José €"}`)
	outbox.Exec(t, insert, topic, `{"message-id": "mine"}`)
	outbox.Exec(t, insert, "größe€", `{}`)
	// Of a refused row the time of the next try is computed from columns.
	outbox.Exec(t, `insert into outbox_messages (topic, payload, code, ratio, attempt, last_error, updated_at)
		values ($1, '{}', 'retried', 1::float8 / 3, 2, 'refused by a policy', now())`, topic)
	outbox.Exec(t, `insert into outbox_messages (topic, payload, code, ratio) values ($1, '{}', 'held', 0.1::float8 +
		0.2::float8)`, missing)
	await(t, "all but the held row are settled", func() bool { return outbox.count(isPending) == 1 })
	await(t, "the doorbell has rung", func() bool {
		if n := r.metric(`wakeups_total{source="listen"}`); n != "" && n != "0" {
			return true
		}
		outbox.Exec(t, `insert into outbox_messages (topic, payload, ratio) values ($1, '{}', 1::float8 / 3)`, topic)
		return false
	})
	ours := append(env, "OUTBOX_HTTP_ADDR="+r.Address)
	command := func(want string, args ...string) string {
		t.Helper()
		code, out, problems := runCommand(t, ours, args...)
		if code != 0 || !strings.Contains(out+problems, want) {
			t.Fatalf("%v: status %d, without %q:\n%s%s", args, code, want, out, problems)
		}
		return out
	}
	command("shards owned: 16 of 16", "status")
	command("größe", "failed", "list")
	command("discarded: 1 row", "failed", "discard", "--keep", "--reason", "für immer", "--yes", "--error", "größe")
	failed := pgtest.Value[string](t, outbox.Schema,
		"select id::text from outbox_messages where failed_at is not null and relayed_at is null")
	command(`"key":"\\x6b0131"`, "failed", "show", failed, "--json")
	outbox.Exec(t, "update outbox_messages set headers = '{}' where failed_at is not null and relayed_at is null")
	command("retried: 1 row", "failed", "retry", failed)
	b.create(t, unnumbered)
	outbox.awaitDrained()
	command("replayed: 1 row", "replay", "--topic", missing, "--key", `\x68656c64`, "--since", "1h", "--yes")
	outbox.awaitDrained()
	if d := doctor(t, env); len(d.errors()) > 0 || !d.says("ok", "doorbell") {
		t.Errorf("%+v", d.worse())
	}
	command("", "verify", "--topic", topic)
	r.stop()
	// A pooler may lend a session that the server ends at this moment, since its own idle time of 300 ms is over.
	ended := func(r record) bool { return strings.Contains(r.Error, "57P05") }
	if warnings := slices.DeleteFunc(r.records("WARN"), ended); len(warnings) > 5 {
		t.Errorf("warnings: %v", warnings)
	}

	var first delivery
	retried := 0
	for _, d := range b.received(t, numbered) {
		if d.key == `\x72657472696564` {
			retried++
		}
		if d.headers["author"] != "" {
			first = d
		}
	}
	wanted := map[string]string{
		"author": "José €", "code": `\x6b0131`, "due": "2026-04-03 05:06:07.89+00", "span": "1 day 02:00:00",
		"ratio": "0.3333333333333333",
		"price": "$1,234.50", "day": "2026-04-03", "content-type": "application/json",
	}
	if first.key != `\x6b0131` || first.body != `{"n": 1, "name": "André €"}` || !maps.Equal(first.headers, wanted) {
		t.Errorf("key %q, body %s, headers %q, want %q", first.key, first.body, first.headers, wanted)
	}
	if retried != 1 {
		t.Errorf("%d messages of the row that was refused before", retried)
	}
	if n := len(b.received(t, unnumbered)); n != 2 {
		t.Errorf("%d messages of the topic that was missing", n)
	}
	command("deleted: ", "prune", "--older-than", "0s", "--yes")
	if left := outbox.count(everyRow); left != 0 {
		t.Errorf("%d rows are left", left)
	}
}
