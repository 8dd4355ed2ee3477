package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestAbsentRows: ids that have no row in the state that the command is about change nothing. Only `failed show` fails
// because of them, so that the other commands can be run again.
func TestAbsentRows(t *testing.T) {
	s, env := failedRows(t)
	one := pgtest.Value[string](t, s, "select id::text from outbox_messages where failed_at is not null limit 1")
	const none = "00000000-0000-0000-0000-000000000000"
	for _, c := range []struct {
		args   string
		status int
		errs   string
	}{
		{"failed show " + none, 1, "outbox-relay: no failed row has such an id"},
		{"failed show " + one + " " + none, 0, ""},
		{"failed list --id " + one + "," + one, 0, ""},
		{"failed retry " + one + " " + none, 0, "retried: 1 row\n"},
		{"failed retry " + one, 0, "retried: 0 rows\n"},
		{"replay --id " + none, 0, "replayed: 0 rows\n"},
	} {
		status, _, errs := execute(t, env, strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" {
			t.Errorf("%s: status %d: %s", c.args, status, errs)
		}
	}
}

// TestMissingRights names the command that prints the rights which a role lacks.
func TestMissingRights(t *testing.T) {
	s, env := failedRows(t)
	role := s.NewRole(t)
	s.Exec(t, "grant usage on schema "+s.Name+" to "+role)
	s.Exec(t, "grant select on outbox_messages to "+role)
	env = append(env, "OUTBOX_DATABASE_URL="+s.URLAs(t, role))
	for command, purpose := range map[string]string{
		"failed retry --yes": "operate", "failed discard --yes --topic *": "operate", "replay --yes": "operate",
		"prune --older-than 0 --yes": "prune",
	} {
		status, _, errs := execute(t, env, strings.Fields(command)...)
		if status != 1 || !strings.Contains(errs, "`outbox-relay grants --role ROLE --for "+purpose+"`") {
			t.Errorf("%s: status %d: %s", command, status, errs)
		}
	}
}

// TestColumnRights shows rows to a role that may read each column, and not the table as a whole. A role that may read
// nothing is told what it lacks.
func TestColumnRights(t *testing.T) {
	s, env := failedRows(t)
	one := pgtest.Value[string](t, s, "select id::text from outbox_messages where failed_at is not null limit 1")
	role := s.NewRole(t)
	s.Exec(t, "grant usage on schema "+s.Name+" to "+role)
	env = append(env, "OUTBOX_DATABASE_URL="+s.URLAs(t, role))
	commands := []string{"status", "status --id " + one, "failed list --topic topic0", "failed show " + one}
	for _, command := range commands {
		status, out, errs := execute(t, env, strings.Fields(command)...)
		if status != 1 || !strings.Contains(errs, "`outbox-relay grants --role ROLE --for operate`") ||
			strings.Count(errs, "let ") != 1 {
			t.Errorf("without rights, %s: status %d: %s%s", command, status, out, errs)
		}
	}
	columns := pgtest.Value[string](t, s, `select string_agg(quote_ident(attname), ', ') from pg_attribute
		where attrelid = 'outbox_messages'::regclass and attnum > 0`)
	s.Exec(t, "grant select ("+columns+") on outbox_messages to "+role)
	for _, command := range commands {
		if status, out, errs := execute(t, env, strings.Fields(command)...); status != 0 ||
			!strings.Contains(out, "topic") {
			t.Errorf("%s: status %d: %s%s", command, status, out, errs)
		}
	}
}

// TestInterrupted ends a command with status 3 when it is interrupted, also before it has begun to work.
func TestInterrupted(t *testing.T) {
	_, env := failedRows(t)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, command := range []string{
		"failed list", "failed retry --yes", "replay --yes", "prune --older-than 0 --yes",
		"status",
	} {
		var out, errs strings.Builder
		status := (&program{}).execute(ctx, strings.Fields(command), strings.NewReader(""), &out, &errs)
		if status != 3 || !strings.HasSuffix(errs.String(), "outbox-relay: stopped before all was done\n") {
			t.Errorf("%s: status %d: %s%s", command, status, out.String(), errs.String())
		}
	}
}

// Rows that another session keeps locked are left, and the exit status says so.
func TestPruneLeavesLockedRows(t *testing.T) {
	s, env := failedRows(t)
	err := pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "select from outbox_messages where topic = 'topic1' for update"); err != nil {
			return err
		}
		const want = "deleted: 40 rows\noutbox-relay: another session keeps 20 rows locked; run the command again for them\n"
		if status, _, errs := execute(t, env, "prune", "--older-than", "0s", "--yes"); status != 3 || errs != want {
			t.Errorf("status %d: %s", status, errs)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if status, _, errs := execute(t, env, "prune", "--older-than", "0s", "--yes"); status != 0 ||
		errs != "deleted: 20 rows\n" {
		t.Errorf("afterwards: status %d: %s", status, errs)
	}
}
