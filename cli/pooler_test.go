package cli

import (
	"context"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// TestCommandsThroughPooler runs every command that asks the database with nothing but PgBouncer in transaction mode,
// whose sessions have settings for other programs. Other clients keep it busy, so that a transaction seldom gets the
// server session of the last one. Commands that need a list of rows, or locks, say that they need a session.
func TestCommandsThroughPooler(t *testing.T) {
	s := pgtest.NewHostileDatabase(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, "alter table outbox_messages alter payload type bytea using '\\x00ff'")
	s.Exec(t, `insert into outbox_messages (topic, key, payload, attempt, last_error, failed_at, relayed_at)
		select 'topic' || n % 6, 'k' || n % 7, '\x00ff', 6, 'too large',
			case when n % 2 = 0 then now() - interval '1 hour' end,
			case when n % 2 = 1 then now() - interval '1 hour' end
		from generate_series(1, 3000) n`)
	s.Exec(t, `insert into outbox_messages (topic, payload) values ('pending', '\x00')`)
	direct, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	pooled, err := url.Parse(os.Getenv("TEST_PGBOUNCER_URL"))
	if err != nil {
		t.Fatal(err)
	}
	pooled.Path = direct.Path
	others, err := pgxpool.New(t.Context(), pooled.String()+"&default_query_exec_mode=exec")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				_, _ = others.Exec(ctx, "select pg_sleep(0.002)")
			}
		})
	}
	defer func() { stop(); group.Wait(); others.Close() }()
	env := []string{
		"OUTBOX_DATABASE_URL=" + pooled.String(), "OUTBOX_TABLE=" + s.Name + ".outbox_messages",
		"OUTBOX_PUBLISH_URL=" + os.Getenv("TEST_KAFKA_URL"), "OUTBOX_HTTP_ADDR=127.0.0.1:1",
	}
	for _, c := range []struct {
		args   string
		status int
		want   string // on the outputs
	}{
		{"status --json", 0, `"failed": 1500`},
		{"failed list --limit 0 --json", 0, `"topic":"topic4"`},
		{"status --json", 0, `"failed": 1500`}, // in server sessions of the first one
		{"failed list --limit 0 --json", 0, `"topic":"topic4"`},
		{"failed show --limit 1", 0, `\x00ff`},
		{"failed retry --dry-run", 1, "set OUTBOX_DATABASE_DIRECT_URL"},
		{"replay --yes --topic topic1", 1, "set OUTBOX_DATABASE_DIRECT_URL"},
		{"verify --since 2h --topic topic5", 1, "set OUTBOX_DATABASE_DIRECT_URL"},
		{"drain --timeout 10s", 3, "1 (the connection for ownership goes through a transaction pooler"},
	} {
		status, out, errs := execute(t, env, strings.Fields(c.args)...)
		if all := out + errs; status != c.status || !strings.Contains(all, c.want) {
			t.Errorf("%s: status %d, want %d and %q:\n%.1500s", c.args, status, c.status, c.want, all)
		}
	}
}
