package e2e

import (
	"context"
	"encoding/json"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// diagnosis is what `outbox-relay doctor --json` prints.
type diagnosis struct {
	status   int
	Errors   int
	Warnings int
	Findings []finding
}

type finding struct{ Severity, Area, Destination, Check, Subject, Found, Remedy string }

// doctor runs the command twice: as text it must say the same.
func doctor(t testing.TB, env settings) diagnosis {
	t.Helper()
	var d diagnosis
	status, out, problems := runCommand(t, env, "doctor", "--json")
	d.status = status
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("status %d: %v: %s%s", status, err, out, problems)
	}
	if strings.Contains(out+problems, "hunter2") {
		t.Errorf("a secret is told:\n%s%s", out, problems)
	}
	if d.status != min(d.Errors, 1) {
		t.Errorf("status %d with %d errors", d.status, d.Errors)
	}
	for _, f := range d.Findings {
		if f.Found == "" || f.Check == "" || (f.Remedy == "") != (f.Severity == "ok") || strings.ContainsAny(f.Found+f.Remedy, "\n\t") {
			t.Errorf("not one clear line with a remedy: %+v", f)
		}
	}
	return d
}

// worse are the findings that are not ok.
func (d diagnosis) worse() []finding {
	return slices.DeleteFunc(slices.Clone(d.Findings), func(f finding) bool { return f.Severity == "ok" })
}

// errors are the findings that make the command fail.
func (d diagnosis) errors() []finding {
	return slices.DeleteFunc(slices.Clone(d.Findings), func(f finding) bool { return f.Severity != "error" })
}

// says reports whether one finding has this severity and check, and all of the words.
func (d diagnosis) says(severity, check string, words ...string) bool {
	return slices.ContainsFunc(d.Findings, func(f finding) bool {
		return f.Severity == severity && f.Check == check && containsAll(f.Subject+" "+f.Found+" "+f.Remedy, words)
	})
}

// TestDoctorWell: with everything there, no error; beside a relay that runs, which it does not disturb, and
// nothing has changed or arrived.
func TestDoctorWell(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, outbox := b.topic(t), newTable(t)
		outbox.insert(topic, 0, 10, 2)
		outbox.Exec(t, "create table copy as select * from outbox_messages")
		d := doctor(t, outbox.env(b.url()))
		if d.Errors > 0 || !d.says("ok", "backlog", "pending rows: 10") || !d.says("ok", "replicas", "no replica") || !d.says("ok", "pooler") || !d.says("ok", "topic", topic) {
			t.Errorf("%+v", d)
		}
		if changed := outbox.count("true") - int(pgtest.Value[int64](t, outbox.Schema, "select count(*) from (select * from outbox_messages intersect select * from copy) same")); changed != 0 {
			t.Errorf("%d rows have changed", changed)
		}
		if got := b.received(t, topic); len(got) > 0 {
			t.Errorf("%d messages were published", len(got))
		}
		r := startRelay(t, outbox.env(b.url()))
		outbox.awaitDrained()
		d = doctor(t, outbox.env(b.url(), "OUTBOX_SHARDS=8"))
		if d.Errors > 0 || !d.says("warning", "replicas", "1 with OUTBOX_SHARDS=16", "shards that are owned: 16") || !r.owns(16) {
			t.Errorf("beside a relay: %+v", d)
		}
	})
}

// TestDoctorDatabase names what is wrong with the database, while the broker is well.
func TestDoctorDatabase(t *testing.T) {
	t.Parallel()
	base, err := url.Parse(endpoint(t, "TEST_DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*url.URL)) string {
		u := *base
		u.User = url.UserPassword(base.User.Username(), "hunter2")
		change(&u)
		return u.String()
	}
	for name, c := range map[string]struct {
		url   string
		check string
		says  []string
	}{
		"away":           {with(func(u *url.URL) { u.Host = nobody }), "reach", []string{"connection refused", "start the server"}},
		"no such host":   {with(func(u *url.URL) { u.Host = "nowhere.invalid" }), "reach", []string{"nowhere.invalid", "correct the host"}},
		"wrong password": {with(func(u *url.URL) { u.Host = refusingPostgres(t) }), "authentication", []string{"password authentication failed", "correct user and password"}},
		"no database":    {with(func(u *url.URL) { u.Path = "/missing" }), "reach", []string{"missing", "correct the database's name"}},
		"no role":        {with(func(u *url.URL) { u.User = url.UserPassword("stranger", "hunter2") }), "authentication", []string{"stranger", "create the role"}},
		"a broker there": {with(func(u *url.URL) { u.Host = strings.TrimPrefix(endpoint(t, "TEST_NATS_URL"), "nats://") }), "reach", []string{"no PostgreSQL server"}},
		"silence":        {with(func(u *url.URL) { u.Host = silent(t) }), "reach", []string{"nothing answers in time"}},
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

// silent returns the address of a server that takes connections and never answers.
func silent(t testing.TB) string {
	t.Helper()
	listener := listen(t)
	go func() {
		var held []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				for _, conn := range held {
					_ = conn.Close()
				}
				return
			}
			held = append(held, conn)
		}
	}()
	return listener.Addr().String()
}

// TestDoctorTable names what is wrong with the table; what it prints as a remedy mends it.
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
		"missing":       {"", nil, "error", "table", []string{"does not exist", "outbox-relay schema"}, false},
		"column":        {strings.Replace(pgtest.ShapeB, "topic varchar", "subject varchar", 1), nil, "error", "columns", []string{"no column topic", "OUTBOX_COLUMNS=topic:NAME"}, false},
		"template":      {pgtest.ShapeB, settings{"OUTBOX_TOPIC=shop.{tenant}"}, "error", "columns", []string{"tenant", "template"}, false},
		"header column": {pgtest.ShapeB, settings{"OUTBOX_COLUMNS=header.kind:type"}, "error", "columns", []string{"no column type", "header kind"}, false},
		"pending index": {pgtest.ShapeC + "create index on outbox_messages (failed_at)", nil, "warning", "index", []string{"each poll reads the table"}, true},
		"failed index":  {pgtest.ShapeC + "create index on outbox_messages (inserted_at) where relayed_at is null and failed_at is null", nil, "warning", "index", []string{"failed_rows"}, true},
		"random order":  {debeziumLayout, settings{"OUTBOX_PROFILE=debezium", "OUTBOX_TABLE=outbox", "OUTBOX_SETTLE=delete"}, "warning", "order", []string{"id uuid", "does not grow with time"}, false},
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

// TestDoctorRights: the remedy for rights is what `outbox-relay grants` prints.
func TestDoctorRights(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	role := "d" + outbox.Name
	outbox.Exec(t, "create role "+role+" login")
	t.Cleanup(func() {
		for _, statement := range []string{"drop owned by " + role, "drop role " + role} {
			if _, err := outbox.Pool.Exec(context.Background(), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
	})
	base, err := url.Parse(outbox.URL)
	if err != nil {
		t.Fatal(err)
	}
	base.User = url.User(role)
	env := settings{"OUTBOX_DATABASE_URL=" + base.String(), "OUTBOX_PUBLISH_URL=stdout:", "OUTBOX_TABLE=" + outbox.Name + ".outbox_messages"}
	if d := doctor(t, env); d.Errors != 1 || !d.says("error", "rights", role, "outbox-relay grants --role "+role) {
		t.Errorf("%+v", d.errors())
	}
	_, grants, _ := runCommand(t, env, "grants", "--role", role)
	outbox.Exec(t, grants)
	if d := doctor(t, env); d.Errors > 0 {
		t.Errorf("with the grants: %+v", d.errors())
	}
	outbox.Exec(t, "revoke update (attempt) on outbox_messages from "+role)
	if d := doctor(t, env); d.Errors != 1 || !d.says("error", "rights", "may not update column attempt") {
		t.Errorf("with one less: %+v", d.errors())
	}
}

// TestDoctorPooler: a transaction pooler is found, and with a way around it all is well.
func TestDoctorPooler(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	table := "OUTBOX_TABLE=" + outbox.Name + ".outbox_messages"
	env := settings{"OUTBOX_DATABASE_URL=" + endpoint(t, "TEST_PGBOUNCER_URL"), "OUTBOX_PUBLISH_URL=stdout:", table}
	if d := doctor(t, env); d.Errors != 1 || !d.says("error", "pooler", "OUTBOX_DATABASE_DIRECT_URL", "transaction pooler") {
		t.Errorf("%+v", d.errors())
	}
	if d := doctor(t, append(env, "OUTBOX_DATABASE_DIRECT_URL="+endpoint(t, "TEST_DATABASE_URL"))); d.Errors > 0 || !d.says("ok", "pooler") {
		t.Errorf("with a way around it: %+v", d.errors())
	}
	elsewhere, err := url.Parse(endpoint(t, "TEST_DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere.Path = "/postgres"
	if d := doctor(t, append(env, "OUTBOX_DATABASE_DIRECT_URL="+elsewhere.String())); d.Errors != 1 || !d.says("error", "reach", "another server or database") {
		t.Errorf("with another database: %+v", d.errors())
	}
}

// TestDoctorServer names settings of the server that make relaying impossible or less safe.
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
		{"statement_timeout", "1s", "warning", "settings"},
		{"default_transaction_isolation", "serializable", "warning", "settings"},
	} {
		if d := doctor(t, with(c.parameter, c.value)); !d.says(c.severity, c.check) {
			t.Errorf("%s=%s: %+v", c.parameter, c.value, d.worse())
		}
	}
}

// TestDoctorBacklog: what waits for long, what has failed, and a transaction that has been open for long.
func TestDoctorBacklog(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	outbox.insert("orders", 0, 20, 2)
	outbox.Exec(t, "update outbox_messages set inserted_at = now() - interval '1 hour'; update outbox_messages set failed_at = now() where seq % 2 = 0")
	d := doctor(t, outbox.env("stdout:"))
	if d.Errors > 0 || !d.says("warning", "backlog", "pending rows: 10", "1h0m") || !d.says("warning", "failed", "failed rows: 10") {
		t.Errorf("%+v", d.worse())
	}
}

// TestDoctorBroker: what is wrong with each broker, and the topics of the rows that are pending.
func TestDoctorBroker(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		there, missing, outbox := b.topic(t), uniqueTopic(), newTable(t)
		outbox.insert(there, 0, 5, 1)
		outbox.insert(missing, 5, 5, 1)
		d := doctor(t, outbox.env(b.url()))
		if !slices.ContainsFunc(d.errors(), func(f finding) bool { return f.Area == "destination" && strings.Contains(f.Subject+f.Found, missing) }) {
			t.Errorf("the missing topic: %+v", d.Findings)
		}
		if slices.ContainsFunc(d.errors(), func(f finding) bool { return strings.Contains(f.Subject+f.Found, there) }) {
			t.Errorf("the topic that is there: %+v", d.errors())
		}
		u, err := url.Parse(b.url())
		if err != nil {
			t.Fatal(err)
		}
		u.Host = nobody
		if d := doctor(t, outbox.env(u.String())); d.Errors != 1 || d.errors()[0].Area != "destination" || !containsAll(d.errors()[0].Subject+d.errors()[0].Found, []string{nobody}) {
			t.Errorf("away: %+v", d.errors())
		}
	})
}

// TestDoctorDestinations: each is examined with its own topics; rows that go nowhere are told.
func TestDoctorDestinations(t *testing.T) {
	t.Parallel()
	k, n := newKafka(t, endpoint(t, "TEST_KAFKA_URL")), newNATS(t, endpoint(t, "TEST_NATS_URL"))
	ours := uniqueTopic()
	k.create(t, ours+"-k.x")
	outbox := newTable(t)
	for _, topic := range []string{ours + "-k", ours + "-n", ours + "-lost"} {
		outbox.insert(topic, 0, 1, 1)
	}
	d := doctor(t, outbox.env(k.url(), "OUTBOX_DESTINATIONS=k,n", "OUTBOX_DESTINATION_K_TOPICS="+ours+"-k", "OUTBOX_DESTINATION_N_TOPICS="+ours+"-n",
		"OUTBOX_DESTINATION_N_PUBLISH_URL="+n.url(), "OUTBOX_DESTINATION_K_TOPIC={topic}.x"))
	if d.Errors != 1 || !slices.ContainsFunc(d.errors(), func(f finding) bool { return f.Destination == "n" && strings.Contains(f.Subject+f.Found, ours+"-n") }) {
		t.Errorf("%+v", d.errors())
	}
	if !d.says("ok", "topic", ours+"-k.x") || !d.says("warning", "topic", ours+"-lost", "no destination takes this topic") {
		t.Errorf("%+v", d.Findings)
	}
}

// TestDoctorText is the form for people.
func TestDoctorText(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	code, out, problems := runCommand(t, outbox.env("nats://"+nobody), "doctor")
	if code != 1 || !containsAll(out, []string{"database\n", "  ok       reach OUTBOX_DATABASE_URL: PostgreSQL ", "destination default\n", "  error    ", "           -> ", "\n1 error, "}) ||
		!strings.Contains(problems, "doctor found errors: 1") {
		t.Errorf("status %d:\n%s%s", code, out, problems)
	}
	if code, _, problems := runCommand(t, settings{"OUTBOX_TABEL=x"}, "doctor"); code != 2 || !strings.Contains(problems, "OUTBOX_TABEL") {
		t.Errorf("status %d: %s", code, problems)
	}
}

// TestDoctorSettings warns of settings that contradict one another.
func TestDoctorSettings(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	d := doctor(t, outbox.env("stdout:", "OUTBOX_MAX_IN_FLIGHT=10", "OUTBOX_PUBLISH_TIMEOUT=1m", "OUTBOX_LISTEN_CHANNEL=", "OUTBOX_POLL_INTERVAL=10s"))
	if d.Errors > 0 || !d.says("warning", "settings", "OUTBOX_MAX_IN_FLIGHT", "no batch is ever full") || !d.says("warning", "settings", "OUTBOX_PUBLISH_TIMEOUT") ||
		!d.says("warning", "settings", "OUTBOX_POLL_INTERVAL") {
		t.Errorf("%+v", d.worse())
	}
}
