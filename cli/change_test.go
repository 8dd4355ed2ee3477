package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// failedRows makes the recommended table with 20 failed rows of each of three topics, and 60 relayed ones.
func failedRows(t *testing.T) (*pgtest.Schema, []string) {
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, `insert into outbox_messages (topic, key, payload, attempt, last_error, failed_at, relayed_at)
		select 'topic' || n % 3, 'k', '{"n": 1}', 6, 'too large', case when n % 2 = 0 then now() - make_interval(mins => n)
		end, case when n % 2
		= 1 then now() end
		from generate_series(1, 120) n`)
	return s, []string{"OUTBOX_DATABASE_URL=" + s.URL}
}

// TestFailedRowsWithoutAnID changes failed rows, some of which have no id: these do not block the others.
func TestFailedRowsWithoutAnID(t *testing.T) {
	s, env := failedRows(t)
	s.Exec(t, "alter table outbox_messages drop constraint outbox_messages_pkey; alter table outbox_messages alter id "+
		"drop not null",
		pgx.QueryExecModeSimpleProtocol)
	s.Exec(t, "update outbox_messages set id = null where topic = 'topic1' and failed_at is not null")
	for _, c := range []struct{ args, out, errs string }{
		{"failed list --json", `"id":""`, ""},
		{
			"failed discard --dry-run --json --topic topic1", `"action":"delete","dry_run":true}`,
			"would discard 20 rows; nothing was changed\n",
		},
		{"failed retry --yes --json --topic topic2", "", "retried: 20 rows\n"},
		{"failed discard --yes --topic *", "", "discarded: 40 rows\n"},
	} {
		if status, out, errs := execute(t, env, strings.Fields(c.args)...); status != 0 || !strings.Contains(out, c.out) ||
			errs != c.errs {
			t.Errorf("%s: status %d:\n%s%s", c.args, status, out, errs)
		}
	}
}

// TestFailedCommands lists and changes failed rows with only the database's settings.
func TestFailedCommands(t *testing.T) {
	s, env := failedRows(t)
	one := pgtest.Value[string](t, s,
		"select id::text from outbox_messages where failed_at is not null and topic = 'topic2' order by "+
			"failed_at desc limit 1")
	failed := func() int64 {
		return pgtest.Value[int64](t, s,
			"select count(*) from outbox_messages where failed_at is not null and relayed_at is null")
	}
	for _, c := range []struct {
		args    string
		status  int
		out     string // expected lines of standard output, or a part of it
		errs    string
		remains int64
	}{
		{"failed list", 0, "61 lines", "", 60},
		{"failed list --json --topic topic1,topic2", 0, "40 lines", "", 60},
		{"failed list --since 61m", 0, "31 lines", "", 60},
		{"failed list --limit 5", 0, "6 lines", "there may be more than 5 rows: --limit 0 lists all\n", 60},
		{"failed show " + one, 0, `{"n": 1}`, "", 60},
		{"failed show --json --id " + one, 0, `"payload":"{\"n\": 1}"`, "", 60},
		{"failed retry --dry-run --topic topic1", 0, "20 lines", "would retry 20 rows; nothing was changed\n", 60},
		{
			"failed retry", 2, "0 lines",
			"outbox-relay: this would retry 60 rows, but there is no terminal for confirmation; use --yes, or " +
				"--dry-run to list them\n", 60,
		},
		{"failed retry " + one, 0, "0 lines", "retried: 1 row\n", 59},
		{"failed retry --yes --topic topic1 --json", 0, "20 lines", "retried: 20 rows\n", 39},
		{"failed discard --yes --topic topic0 --keep --reason known", 0, "0 lines", "discarded: 20 rows\n", 19},
		{"failed discard --yes", 2, "0 lines", "outbox-relay: --yes without a selection would discard every failed row", 19},
		{"failed discard --yes --dry-run", 0, "19 lines", "would discard 19 rows; nothing was changed\n", 19},
		{"failed discard --yes --json --topic *", 0, `"action":"deleted"`, "discarded: 19 rows\n", 0},
		{"failed discard --id 7", 2, "0 lines", "outbox-relay: --id: an id is not of the type of the table's ids", 0},
		{
			"failed list --destination audit", 2, "0 lines",
			"outbox-relay: --destination: OUTBOX_DESTINATIONS has no \"audit\"\n",
			0,
		},
	} {
		status, out, errs := execute(t, env, strings.Fields(c.args)...)
		if lines := fmt.Sprint(strings.Count(out, "\n"), " lines"); status != c.status || !strings.HasPrefix(errs, c.errs) ||
			lines != c.out &&
				!strings.Contains(out, c.out) {
			t.Errorf("%s: status %d, %s, not %s:\n%s%s", c.args, status, lines, c.out, out, errs)
		}
		if got := failed(); got != c.remains {
			t.Fatalf("%s: %d failed rows are left, not %d", c.args, got, c.remains)
		}
	}
	if got := pgtest.Value[int64](t, s,
		"select count(*) from outbox_messages where failed_at is not null and last_error = 'too large "+
			"[discarded: known]'"); got != 20 {
		t.Errorf("%d rows say why they were discarded, not 20", got)
	}
}

// TestGrantsSuffice runs each command as a role that has exactly the rights that `grants` prints for it.
func TestGrantsSuffice(t *testing.T) {
	s, env := failedRows(t)
	s.Exec(t, "update outbox_messages set inserted_at = now() - interval '1 day', relayed_at = relayed_at - interval '1 "+
		"hour'")
	env = append(env, "OUTBOX_TABLE="+s.Name+".outbox_messages")
	for purpose, commands := range map[string][]string{
		"relay": {"failed retry --yes --topic topic0", "status"},
		"operate": {
			"failed retry --yes --topic topic1", "failed discard --yes --topic topic2", "replay --yes --topic topic1",
			"failed list", "status",
		},
		"prune":                {"prune --older-than 30m --yes --topic topic0"},
		"prune while relaying": {"prune --older-than 30m --yes --topic topic2"},
	} {
		role, settings := s.Name+"_"+strings.ReplaceAll(purpose, " ", "_"), env
		purpose, whileRelaying := strings.CutSuffix(purpose, " while relaying")
		if whileRelaying { // the relay's own role deletes rows
			purpose, settings = "relay", append(slices.Clone(env), "OUTBOX_PRUNE_AFTER=7d")
		}
		s.Exec(t, "create role "+role)
		t.Cleanup(func() {
			if _, err := s.Pool.Exec(context.Background(), "drop owned by "+role+"; drop role "+role); err != nil {
				t.Error(err)
			}
		})
		_, grants, _ := execute(t, settings, "grants", "--role", role, "--for", purpose)
		s.Exec(t, grants)
		for _, command := range commands {
			status, out, errs := execute(t, append(slices.Clone(settings), "OUTBOX_DATABASE_URL="+s.URL+"&role="+role),
				strings.Fields(command)...)
			if status != 0 || strings.Contains(errs, ": 0 rows") {
				t.Errorf("%s, by a role for %s: status %d: %s%s", command, purpose, status, out, errs)
			}
		}
	}
}

// TestEmptySelection checks that a flag with an empty value, as an unset variable of a script produces it, is a mistake
// and does not select all rows.
func TestEmptySelection(t *testing.T) {
	_, env := failedRows(t)
	for _, command := range []string{
		"failed list", "failed show", "failed retry", "failed discard", "replay", "prune --older-than 0",
		"status",
	} {
		for _, flag := range []string{
			"--id=", "--id=7,", "--topic=", "--topic=x,", "--error=", "--destination=", "--since=", "--until=",
			"--until=0001-01-01T00:00:00Z",
		} {
			if status, out, errs := execute(t, env, append(strings.Fields(command), flag)...); status != 2 ||
				strings.Contains(out, "topic1") {
				t.Errorf("%s %s: status %d: %s%s", command, flag, status, out, errs)
			}
		}
	}
}

// TestSelectionWithoutRows checks that a selection that excludes nothing is a mistake.
func TestSelectionWithoutRows(t *testing.T) {
	_, env := failedRows(t)
	for _, c := range []struct{ flags, want string }{
		{"--topic !", `--topic holds the empty pattern "!": name a topic after it`},
		{"--topic x --topic topic1,!", `--topic holds the empty pattern "!": name a topic after it`},
	} {
		for _, command := range []string{
			"failed list", "failed discard --yes", "replay --yes", "prune --older-than 0 --yes",
			"status",
		} {
			status, out, errs := execute(t, env, strings.Fields(command+" "+c.flags)...)
			if status != 2 || out != "" || !strings.HasSuffix(errs, "outbox-relay: "+c.want+"\n") {
				t.Errorf("%s %s: status %d: %s%s", command, c.flags, status, out, errs)
			}
		}
	}
	if status, out, _ := execute(t, env, "failed", "list", "--json", "--since", "2h", "--until", "1h", "--topic",
		"!topic1"); status != 0 ||
		out == "" {
		t.Errorf("status %d: %s", status, out)
	}
}

// TestOddIDs chooses rows by ids with quotes, by the flag and as arguments.
func TestOddIDs(t *testing.T) {
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id text primary key, topic text, payload text, attempt integer, relayed_at
		timestamptz,
		failed_at timestamptz, last_error text)`)
	s.Exec(t, `insert into outbox_messages (id, topic, payload, failed_at) select id, 'a "topic"', '{}', now() from
		unnest(array['"', 'a"b',
		'''c''', '"d"', 'e']) id`)
	env := []string{"OUTBOX_DATABASE_URL=" + s.URL}
	for _, c := range []struct {
		args []string
		rows int
	}{
		{[]string{"--id", `"`}, 1},
		{[]string{"--id", `a"b,'c'`}, 2},
		{[]string{"--id", `"d"`, "--id=e"}, 2},
		{[]string{"--id", `d`}, 0},
		{[]string{"--topic", `a "topic"`}, 5},
		{[]string{"--topic", `*"topic"`}, 5},
		{[]string{"--topic", `topic`}, 0},
	} {
		status, out, errs := execute(t, env, append([]string{"failed", "list", "--json"}, c.args...)...)
		if status != 0 || strings.Count(out, "\n") != c.rows {
			t.Errorf("%q: status %d:\n%s%s", c.args, status, out, errs)
		}
	}
	if status, _, errs := execute(t, env, "failed", "retry", "--yes", `a"b`, `"d"`); status != 0 ||
		errs != "retried: 2 rows\n" {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestHostileTexts checks that no control sequences reach a terminal, whatever the table contains.
func TestHostileTexts(t *testing.T) {
	s := pgtest.New(t)
	const evil = "e\x1b]0;pwned\x07\u009b2Jvil"
	s.Exec(t, `create table outbox_messages (id text primary key, topic text, payload text, key text, headers jsonb
		default '{}', attempt
	integer,
		relayed_at timestamptz, failed_at timestamptz, last_error text, inserted_at timestamptz default now() - interval
		'1 day', updated_at
		timestamptz)`)
	for state, id := range map[string]string{"failed_at": "failed", "relayed_at": "relayed", "updated_at": "pending"} {
		s.Exec(t, "insert into outbox_messages (id, topic, payload, key, last_error, "+state+
			") select $1, x, x, x, x, now() from (values "+
			"($2)) v (x)",
			id+evil, evil)
	}
	env := []string{"OUTBOX_DATABASE_URL=" + s.URL}
	for _, command := range [][]string{
		{"failed", "list"},
		{"failed", "show"},
		{"failed", "retry", "--dry-run"},
		{"replay", "--dry-run"},
		{"prune", "--older-than=0", "--dry-run"},
		{"status", "--id=pending" + evil},
	} {
		status, out, errs := execute(t, env, command...)
		if status != 0 || !strings.Contains(out, "vil") || strings.ContainsAny(out+errs, "\x1b\x07\u009b") {
			t.Errorf("%q: status %d: %q %q", command, status, out, errs)
		}
	}
	var out strings.Builder
	to := &lines{out: &out}
	err := errors.Join(
		writeDiscrepancy(to, operate.Discrepancy{ID: evil, Topic: evil, Why: evil}),
		writeDiscrepancy(to, operate.Discrepancy{ID: evil, Before: evil, Place: evil, Position: new(uint64)}),
		to.end())
	if err != nil || strings.Count(out.String(), "vil") != 6 || strings.ContainsAny(out.String(), "\x1b\x07\u009b") {
		t.Errorf("verify: %q (%v)", out.String(), err)
	}
}

// TestReplayCommand publishes relayed rows again, and expects a warning about JetStream unless no destination can be
// JetStream.
func TestReplayCommand(t *testing.T) {
	s, env := failedRows(t)
	status, out, errs := execute(t, env, "replay", "--topic", "topic1", "--yes", "--json")
	if status != 0 || strings.Count(out, `"action":"replayed"`) != 20 ||
		!strings.HasPrefix(errs, "note: a JetStream stream drops") {
		t.Errorf("status %d:\n%s%s", status, out, errs)
	}
	if status, _, errs := execute(t, append(env, "OUTBOX_PUBLISH_URL=kafka://k"), "replay", "--topic", "topic0",
		"--yes"); status != 0 ||
		errs != "replayed: 20 rows\n" {
		t.Errorf("to Kafka: status %d: %s", status, errs)
	}
	if got := pgtest.Value[int64](t, s,
		"select count(*) from outbox_messages where relayed_at is null and failed_at is null and attempt = "+
			"1 and last_error is null"); got != 40 {
		t.Errorf("%d rows are pending, not 40", got)
	}
}

// TestPruneCommand deletes rows that are done.
func TestPruneCommand(t *testing.T) {
	s, env := failedRows(t)
	for _, c := range []struct {
		args         string
		status, left int64
		out, errs    string
	}{
		{"prune --older-than 1h", 0, 120, "", "deleted: 0 rows\n"},
		{
			"prune --older-than 0s", 2, 120, "",
			"outbox-relay: this would delete 60 rows, but there is no terminal for confirmation; use --yes, " +
				"or --dry-run to list them\n",
		},
		{
			"prune --older-than 0s --dry-run --json --topic topic1", 0, 120, `"action":"delete","dry_run":true}`,
			"would delete 20 rows; nothing was changed\n",
		},
		{"prune --older-than 0s --yes --topic topic1 --json", 0, 100, `"action":"deleted"}`, "deleted: 20 rows\n"},
		{"prune --older-than 0s --yes", 0, 60, "", "deleted: 40 rows\n"},
		{"prune --older-than 61m --yes --failed", 0, 30, "", "deleted: 30 rows\n"},
	} {
		status, out, errs := execute(t, env, strings.Fields(c.args)...)
		if int64(status) != c.status || errs != c.errs || !strings.Contains(out, c.out) {
			t.Errorf("%s: status %d:\n%s%s", c.args, status, out, errs)
		}
		if left := pgtest.Value[int64](t, s, "select count(*) from outbox_messages"); left != c.left {
			t.Fatalf("%s leaves %d rows, not %d", c.args, left, c.left)
		}
	}
}

// TestWhatOperatorsAreTold names, beside the number of rows, that no row is deleted for which a destination may wait
// that is not configured.
func TestWhatOperatorsAreTold(t *testing.T) {
	s, env := failedRows(t)
	s.Exec(t, "alter table outbox_messages add column audit_at timestamptz")
	s.Exec(t, "comment on column outbox_messages.audit_at is 'outbox-relay destination audit: relayed_at'")
	for _, c := range []struct{ args, errs string }{
		{"failed discard --dry-run --topic topic0", "no row is deleted, as with --keep: "},
		{"failed discard --yes --topic topic0", "in the columns audit_at"},
	} {
		status, _, errs := execute(t, env, strings.Fields(c.args)...)
		if status != 0 || !strings.Contains(errs, c.errs) {
			t.Errorf("%s: status %d: %s", c.args, status, errs)
		}
	}
	if n := pgtest.Value[int](t, s, "select count(*) from outbox_messages"); n != 120 {
		t.Errorf("%d of 120 rows are left", n)
	}
}
