package e2e

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestDoctorDatabase: doctor names what is wrong with the database, while the broker is in order.
func TestDoctorDatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url   string
		check string
		says  []string
	}{
		"away": {databaseURL(t, func(u *url.URL) {
			u.Host = nobody
		}), "reach", []string{"connection refused", "check that a PostgreSQL server runs"}},
		"no such host": {
			databaseURL(t, func(u *url.URL) { u.Host = "nowhere.invalid" }), "reach",
			[]string{"nowhere.invalid", "name service"},
		},
		"wrong password": {
			databaseURL(t, func(u *url.URL) { u.Host = refusingPostgres(t) }), "authentication",
			[]string{"password authentication failed", "correct host and port, user and password"},
		},
		"no database": {databaseURL(t, func(u *url.URL) {
			u.Path = "/missing"
		}), "reach", []string{"missing", "database"}},
		"no role": {
			databaseURL(t, func(u *url.URL) { u.User = url.UserPassword("stranger", "hunter2") }), "authentication",
			[]string{"stranger", "lets the role in"},
		},
		"a broker there": {databaseURL(t, func(u *url.URL) {
			u.Host = hostOf(t, "TEST_NATS_URL")
		}), "reach", []string{"a PostgreSQL server"}},
		"silence": {databaseURL(t, func(u *url.URL) {
			u.Host = silent(t)
		}), "reach", []string{"correct host and port"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			d := doctor(t, settings{"OUTBOX_DATABASE_URL=" + c.url, "OUTBOX_PUBLISH_URL=" + endpoint(t, "TEST_NATS_URL")})
			if d.Errors != 1 || !d.says("error", c.check, c.says...) || d.errors()[0].Subject != "OUTBOX_DATABASE_URL" {
				t.Errorf("%+v", d.errors())
			}
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestDoctorTable: doctor names what is wrong with the table, and the remedy that it prints repairs it.
func TestDoctorTable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ddl      string
		env      settings
		severity string
		check    string
		says     []string
		mend     bool // the remedy is a statement
	}{
		"missing": {"", nil, "error", "table", []string{"does not exist", "outbox-relay schema"}, false},
		"column": {
			strings.Replace(pgtest.ShapeB, "topic varchar", "subject varchar", 1), nil, "error", "columns",
			[]string{"no column topic", "OUTBOX_COLUMNS=topic:NAME"},
			false,
		},
		"template": {
			pgtest.ShapeB,
			settings{"OUTBOX_TOPIC=shop.{tenant}"},
			"error", "columns",
			[]string{"tenant", "template"},
			false,
		},
		"header column": {
			pgtest.ShapeB,
			settings{"OUTBOX_COLUMNS=header.kind:type"},
			"error", "columns",
			[]string{"no column type", "OUTBOX_COLUMNS=header.kind"},
			false,
		},
		"pending index": {
			pgtest.ShapeC + "create index on outbox_messages (failed_at)", nil, "warning", "index",
			[]string{"polls read the table"},
			true,
		},
		"failed index": {
			pgtest.ShapeC + "create index on outbox_messages (inserted_at) where relayed_at is null and failed_at is null", nil,
			"warning", "index",
			[]string{"failed_rows"},
			true,
		},
		"random order": {
			debeziumLayout,
			settings{"OUTBOX_PROFILE=debezium", "OUTBOX_TABLE=outbox", "OUTBOX_SETTLE=delete"},
			"warning", "order",
			[]string{"id uuid", "does not grow with time"},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outbox := newShape(t, c.ddl+"\n;select 1")
			env := outbox.env("stdout:", c.env...)
			d := doctor(t, env)
			if !d.says(c.severity, c.check, c.says...) {
				t.Fatalf("%+v", d.worse())
			}
			if !c.mend {
				return
			}
			for _, f := range d.worse() {
				if f.Check == c.check && containsAll(f.Found, c.says) {
					outbox.Exec(t, f.Remedy)
				}
			}
			if d = doctor(t, env); d.says(c.severity, c.check, c.says...) {
				t.Errorf("after the remedy: %+v", d.worse())
			}
		})
	}
}

// TestDoctorRights: the remedy for missing privileges is what `outbox-relay grants` prints.
func TestDoctorRights(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	role := outbox.NewRole(t)
	env := settings{
		"OUTBOX_DATABASE_URL=" + outbox.URLAs(t, role), "OUTBOX_PUBLISH_URL=stdout:",
		"OUTBOX_TABLE=" + outbox.Name + ".outbox_messages",
	}
	if d := doctor(t, env); d.Errors != 1 || !d.says("error", "rights", role, "outbox-relay grants --role "+role) {
		t.Errorf("%+v", d.errors())
	}
	_, grants, _ := runCommand(t, env, "grants", "--role", role)
	outbox.Exec(t, grants)
	if d := doctor(t, env); d.Errors > 0 {
		t.Errorf("with the grants: %+v", d.errors())
	}
	outbox.Exec(t, "revoke update (attempt) on outbox_messages from "+role)
	if d := doctor(t, env); d.Errors != 1 || !d.says("error", "rights", "rows cannot be read and marked") {
		t.Errorf("with one less: %+v", d.errors())
	}
}

// TestDoctorPooler: a transaction pooler is detected, and with a direct connection for the locks there is no error.
func TestDoctorPooler(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	table := "OUTBOX_TABLE=" + outbox.Name + ".outbox_messages"
	env := settings{"OUTBOX_DATABASE_URL=" + endpoint(t, "TEST_PGBOUNCER_URL"), "OUTBOX_PUBLISH_URL=stdout:", table}
	for range 2 { // the pooler may lend the second one the session of the first
		if d := doctor(t, env); d.Errors != 1 ||
			!d.says("error", "pooler", "OUTBOX_DATABASE_DIRECT_URL", "transaction pooler") {
			t.Errorf("%+v", d.errors())
		}
	}
	if d := doctor(t, append(env, "OUTBOX_DATABASE_DIRECT_URL="+endpoint(t, "TEST_DATABASE_URL"))); d.Errors > 0 ||
		!d.says("ok", "pooler") {
		t.Errorf("with a way around it: %+v", d.errors())
	}
	elsewhere, err := url.Parse(endpoint(t, "TEST_DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere.Path = "/postgres"
	if d := doctor(t, append(env, "OUTBOX_DATABASE_DIRECT_URL="+elsewhere.String())); d.Errors != 1 ||
		!d.says("error", "reach", "another server or database") {
		t.Errorf("with another database: %+v", d.errors())
	}
}

// TestDoctorServer: doctor names settings of the server that make relaying impossible or less safe.
func TestDoctorServer(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	with := func(parameter, value string) settings {
		u, err := url.Parse(outbox.URL)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set(parameter, value)
		u.RawQuery = q.Encode()
		return settings{"OUTBOX_DATABASE_URL=" + u.String(), "OUTBOX_PUBLISH_URL=stdout:"}
	}
	for _, c := range []struct{ parameter, value, severity, check string }{
		{"default_transaction_read_only", "on", "error", "read_only"},
		{"synchronous_commit", "off", "warning", "settings"},
	} {
		if d := doctor(t, with(c.parameter, c.value)); !d.says(c.severity, c.check) {
			t.Errorf("%s=%s: %+v", c.parameter, c.value, d.worse())
		}
	}
}
