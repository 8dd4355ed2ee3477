package e2e

import (
	"net/url"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestRefusedSettings: settings that cannot work are refused at once, with status 2, and every problem is named.
func TestRefusedSettings(t *testing.T) {
	t.Parallel()
	const good = "OUTBOX_DATABASE_URL=postgres://u:hunter2@h/db"
	for name, c := range map[string]struct {
		env  settings
		says []string
	}{
		"nothing": {nil, []string{"OUTBOX_DATABASE_URL", "OUTBOX_PUBLISH_URL"}},
		"scheme":  {settings{good, "OUTBOX_PUBLISH_URL=http://broker:9092"}, []string{"OUTBOX_PUBLISH_URL", "kafka://"}},
		"no host": {settings{good, "OUTBOX_PUBLISH_URL=kafka://"}, []string{"OUTBOX_PUBLISH_URL"}},
		"database": {
			settings{"OUTBOX_DATABASE_URL=mysql://u:hunter2@h/db", "OUTBOX_PUBLISH_URL=stdout:"},
			[]string{"OUTBOX_DATABASE_URL", "postgres://"},
		},
		"conflict": {
			settings{good, "OUTBOX_PUBLISH_URL=stdout:", "OUTBOX_PUBLISH_URL_FILE=/dev/null"},
			[]string{"OUTBOX_PUBLISH_URL_FILE"},
		},
		"key twice": {
			settings{good, "OUTBOX_PUBLISH_URL=stdout:", "OUTBOX_KEY=topic", "OUTBOX_COLUMNS=key:k"},
			[]string{"OUTBOX_KEY", "OUTBOX_COLUMNS"},
		},
		"unknown": {settings{good, "OUTBOX_PUBLISH_URL=stdout:", "OUTBOX_TABEL=t"}, []string{"OUTBOX_TABEL"}},
		"other broker's": {
			settings{good, "OUTBOX_PUBLISH_URL=nats://h", "OUTBOX_KAFKA_SASL_USERNAME=hunter2"},
			[]string{"OUTBOX_KAFKA_SASL_USERNAME"},
		},
		"several at once": {
			settings{good, "OUTBOX_PUBLISH_URL=ftp://h", "OUTBOX_BATCH_SIZE=0", "OUTBOX_OWNER_TTL=soon"},
			[]string{"OUTBOX_PUBLISH_URL", "OUTBOX_BATCH_SIZE", "OUTBOX_OWNER_TTL"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, command := range []string{"run", "drain", "config"} {
				code, out, problems := runCommand(t, c.env, command)
				if code != 2 {
					t.Errorf("%s: status %d", command, code)
				}
				if !containsAll(problems, c.says) {
					t.Errorf("%s: %s does not name %v", command, problems, c.says)
				}
				if strings.Contains(out+problems, "hunter2") {
					t.Errorf("%s: a secret is shown:\n%s%s", command, out, problems)
				}
			}
		})
	}
}

// TestServiceLinks: the variables that Kubernetes makes for a Service named outbox are not settings.
func TestServiceLinks(t *testing.T) {
	t.Parallel()
	code, _, problems := runCommand(t, settings{
		"OUTBOX_DATABASE_URL=postgres://h/db", "OUTBOX_PUBLISH_URL=stdout:",
		"OUTBOX_SERVICE_HOST=10.0.0.1", "OUTBOX_SERVICE_PORT=80", "OUTBOX_SERVICE_PORT_HTTP=80",
		"OUTBOX_PORT=tcp://10.0.0.1:80",
		"OUTBOX_PORT_80_TCP=tcp://10.0.0.1:80", "OUTBOX_PORT_80_TCP_ADDR=10.0.0.1",
	}, "config")
	if code != 0 {
		t.Errorf("status %d: %s", code, problems)
	}
}

// TestUnusableDatabase: the process keeps running, reports the problem where operators look for it, and prints no
// secret.
func TestUnusableDatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url  string
		says []string
	}{
		"away":         {databaseURL(t, func(u *url.URL) { u.Host = nobody }), []string{"connection refused"}},
		"no such host": {databaseURL(t, func(u *url.URL) { u.Host = "nowhere.invalid" }), []string{"nowhere.invalid"}},
		"wrong password": {databaseURL(t, func(u *url.URL) {
			u.Host = refusingPostgres(t)
		}), []string{"password authentication failed"}},
		"no database": {databaseURL(t, func(u *url.URL) { u.Path = "/missing" }), []string{"missing", "does not exist"}},
		"no role": {databaseURL(t, func(u *url.URL) {
			u.User = url.UserPassword("stranger", "hunter2")
		}), []string{"stranger"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRelay(t, settings{"OUTBOX_DATABASE_URL=" + c.url, "OUTBOX_PUBLISH_URL=stdout:"})
			r.awaitNotReady(c.says...)
			await(t, "the log says it", func() bool { return containsAll(r.Log(), c.says) })
			if up := r.metric("database_up"); up != "0" {
				t.Errorf("database_up is %q", up)
			}
			_, body := r.get("/readyz?verbose")
			if strings.Contains(r.Log()+body, "hunter2") {
				t.Errorf("a secret is shown:\n%s\n%s", body, r.Log())
			}
			t.Log(body)
			r.stop()
		})
	}
}

// TestUnusableBroker does the same for brokers. The table is in order, and nothing in it is touched.
func TestUnusableBroker(t *testing.T) {
	t.Parallel()
	rabbit, err := url.Parse(endpoint(t, "TEST_AMQP_URL"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := *rabbit
	wrong.User = url.UserPassword("stranger", "hunter2")
	for name, c := range map[string]struct {
		url  string
		says []string
	}{
		"kafka away":        {"kafka://" + nobody, []string{nobody}},
		"nats away":         {"nats://" + nobody, []string{nobody}},
		"rabbitmq away":     {"amqp://guest:hunter2@" + nobody, []string{nobody}},
		"rabbitmq password": {wrong.String(), []string{"destination default", "refuses the login of user"}},
		"kafka for nats": {
			strings.Replace(endpoint(t, "TEST_KAFKA_URL"), "kafka://", "nats://", 1),
			[]string{"destination default"},
		},
		"amqp for kafka": {"kafka://" + rabbit.Host, []string{"destination default"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outbox := newTable(t)
			outbox.insert("orders", 0, 100, 10)
			r := startRelay(t, outbox.env(c.url))
			r.awaitNotReady(c.says...)
			await(t, "the log says it", func() bool { return containsAll(r.Log(), c.says[1:]) && len(r.records("WARN")) > 0 })
			if up := r.metric(`destination_up{destination="default"}`); up != "0" {
				t.Errorf("destination_up is %q", up)
			}
			_, body := r.get("/readyz?verbose")
			if strings.Contains(r.Log()+body, "hunter2") {
				t.Errorf("a secret is shown:\n%s\n%s", body, r.Log())
			}
			t.Log(body)
			r.stop()
			if untouched := outbox.count(
				"attempt = 1 and relayed_at is null and failed_at is null and last_error is null"); untouched != 100 {
				t.Errorf("only %d of 100 rows are untouched", untouched)
			}
		})
	}
}

// TestUnusableTable: a table that cannot be used keeps the relay waiting, with the remedy, and the relay starts to work
// by itself when the table has been repaired.
func TestUnusableTable(t *testing.T) {
	t.Parallel()
	const row = `insert into outbox_messages (topic, payload, inserted_at, updated_at) values ('orders', '{"n": 1}',
		now(), now())`
	for name, c := range map[string]struct {
		ddl    string
		says   []string
		remedy string
	}{
		"missing": {"", []string{"outbox_messages", "does not exist", "outbox-relay schema"}, pgtest.ShapeB},
		"no column": {
			pgtest.ShapeB + "alter table outbox_messages rename payload to body",
			[]string{"no column payload", "OUTBOX_COLUMNS"},
			"alter table outbox_messages rename body to payload",
		},
		"id type": {
			strings.Replace(pgtest.ShapeB, "id uuid default gen_random_uuid()", "id point default '(1,2)'", 1) + "",
			[]string{"column id", "point"},
			"alter table outbox_messages drop id, add id uuid primary key default gen_random_uuid()",
		},
		"view": {
			strings.ReplaceAll(pgtest.ShapeB, "outbox_messages",
				"messages") + "create view outbox_messages as select * from messages",
			[]string{"is a view", "OUTBOX_TABLE"},
			"drop view outbox_messages; alter table messages rename to outbox_messages",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ddl := c.ddl
			if name == "id type" {
				ddl = strings.Replace(ddl, ",\n  primary key (id)", "", 1)
			}
			outbox := newShape(t, ddl)
			r := startRelay(t, outbox.env("stdout:"))
			r.awaitNotReady(c.says...)
			await(t, "the log says it", func() bool { return containsAll(r.Log(), c.says) })
			_, body := r.get("/readyz?verbose")
			t.Log(body)
			outbox.Exec(t, c.remedy)
			outbox.Exec(t, row)
			outbox.awaitDrained()
			r.awaitReady()
		})
	}
}

// TestMissingRight runs the relay as a role with only the privileges that `outbox-relay grants` prints, and before that
// without them.
func TestMissingRight(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	outbox.insert("orders", 0, 100, 10)
	role := outbox.NewRole(t)
	env := settings{
		"OUTBOX_DATABASE_URL=" + outbox.URLAs(t, role), "OUTBOX_PUBLISH_URL=stdout:",
		"OUTBOX_TABLE=" + outbox.Name + ".outbox_messages",
	}
	r := startRelay(t, env)
	r.awaitNotReady(role, "outbox-relay grants --role "+role)
	t.Log(r.get("/readyz?verbose"))
	code, grants, problems := runCommand(t, env, "grants", "--role", role)
	if code != 0 {
		t.Fatalf("grants: status %d: %s", code, problems)
	}
	outbox.Exec(t, grants)
	outbox.awaitDrained()
	r.awaitReady()

	outbox.Exec(t, "revoke update on outbox_messages from "+role)
	for _, column := range []string{"relayed_at", "failed_at", "attempt", "last_error", "updated_at"} {
		outbox.Exec(t, "revoke update ("+column+") on outbox_messages from "+role)
	}
	outbox.insert("orders", 100, 100, 10)
	r.awaitNotReady("permission denied")
	t.Log(r.get("/readyz?verbose"))
	outbox.Exec(t, grants)
	outbox.awaitDrained()
	r.awaitReady()
}
