package e2e

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

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

// doctor runs the command twice, because the text must contain the same findings as the JSON.
func doctor(t testing.TB, env settings) diagnosis {
	t.Helper()
	var d diagnosis
	status, out, problems := runCommand(t, env, "doctor", "--json")
	d.status = status
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("status %d: %v: %s%s", status, err, out, problems)
	}
	if strings.Contains(out+problems, "hunter2") {
		t.Errorf("a secret is shown:\n%s%s", out, problems)
	}
	if d.status != min(d.Errors, 1) {
		t.Errorf("status %d with %d errors", d.status, d.Errors)
	}
	for _, f := range d.Findings {
		if f.Found == "" || f.Check == "" || (f.Remedy == "") != (f.Severity == "ok") ||
			strings.ContainsAny(f.Found+f.Remedy, "\n\t") {
			t.Errorf("not one clear line with a remedy: %+v", f)
		}
	}
	return d
}

// worse returns the findings that are not ok.
func (d diagnosis) worse() []finding {
	return slices.DeleteFunc(slices.Clone(d.Findings), func(f finding) bool { return f.Severity == "ok" })
}

// errors returns the findings that make the command fail.
func (d diagnosis) errors() []finding {
	return slices.DeleteFunc(slices.Clone(d.Findings), func(f finding) bool { return f.Severity != "error" })
}

// says reports whether one finding has this severity and check, and all of the words.
func (d diagnosis) says(severity, check string, words ...string) bool {
	return slices.ContainsFunc(d.Findings, func(f finding) bool {
		return f.Severity == severity && f.Check == check && containsAll(f.Subject+" "+f.Found+" "+f.Remedy, words)
	})
}

// TestDoctorWell: if everything is in order, there is no error, with or without a running relay. doctor does not
// disturb the relay, and changes and publishes nothing.
func TestDoctorWell(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, outbox := b.topic(t), newTable(t)
		outbox.insert(topic, 0, 10, 2)
		outbox.Exec(t, "create table copy as select * from outbox_messages")
		d := doctor(t, outbox.env(b.url()))
		if d.Errors > 0 || !d.says("ok", "replicas", "no replica") || !d.says("ok", "pooler") ||
			!d.says("ok", "topic", topic) {
			t.Errorf("%+v", d)
		}
		if changed := outbox.count("true") - int(pgtest.Value[int64](t, outbox.Schema,
			"select count(*) from (select * from outbox_messages intersect select * from copy) same")); changed != 0 {
			t.Errorf("%d rows have changed", changed)
		}
		if got := b.received(t, topic); len(got) > 0 {
			t.Errorf("%d messages were published", len(got))
		}
		r := startRelay(t, outbox.env(b.url()))
		outbox.awaitDrained()
		d = doctor(t, outbox.env(b.url(), "OUTBOX_SHARDS=8"))
		if d.Errors > 0 || !d.says("warning", "replicas", "of 1, 1 have another OUTBOX_SHARDS than 8") ||
			!r.owns(16) {
			t.Errorf("beside a relay: %+v", d)
		}
	})
}

// TestDoctorBroker: doctor finds what is wrong with each broker, and with the topics of the pending rows.
func TestDoctorBroker(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		there, missing, outbox := b.topic(t), uniqueTopic(), newTable(t)
		outbox.insert(there, 0, 5, 1)
		outbox.insert(missing, 5, 5, 1)
		d := doctor(t, outbox.env(b.url()))
		if !slices.ContainsFunc(d.errors(), func(f finding) bool {
			return f.Area == "destination" &&
				strings.Contains(f.Subject+f.Found, missing)
		}) {
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
		if d := doctor(t, outbox.env(u.String())); d.Errors != 1 || d.errors()[0].Area != "destination" ||
			!containsAll(d.errors()[0].Subject+d.errors()[0].Found, []string{nobody}) {
			t.Errorf("away: %+v", d.errors())
		}
	})
}

// TestDoctorBestEffort: a broker that is away, or a column that is missing, is a warning if only a best-effort
// destination needs it. The same is an error for a destination that the relay needs.
func TestDoctorBestEffort(t *testing.T) {
	t.Parallel()
	b, outbox := newKafka(t, endpoint(t, "TEST_KAFKA_URL")), newTable(t)
	outbox.Exec(t, "alter table outbox_messages add column notice_relayed_at timestamptz")
	outbox.insert(b.topic(t), 0, 1, 1)
	env := outbox.env(b.url(), "OUTBOX_DESTINATIONS=orders,notice", "OUTBOX_DESTINATION_NOTICE_PUBLISH_URL=nats://"+nobody,
		"OUTBOX_DESTINATION_NOTICE_COLUMNS=relayed_at:notice_relayed_at")
	d := doctor(t, env)
	if !d.says("error", "reach", nobody) {
		t.Errorf("required: %+v", d.worse())
	}
	env = append(env, "OUTBOX_DESTINATION_NOTICE_REQUIRED=false")
	d = doctor(t, env)
	if d.Errors != 0 || !d.says("warning", "reach", nobody) {
		t.Errorf("best effort: %+v", d.worse())
	}
	outbox.Exec(t, "alter table outbox_messages drop column notice_relayed_at")
	d = doctor(t, env)
	if d.Errors != 0 || !d.says("warning", "columns", "notice_relayed_at") {
		t.Errorf("without its column: %+v", d.worse())
	}
}

// TestDoctorDestinations: each destination is examined with its own topics, and rows that go nowhere are reported.
func TestDoctorDestinations(t *testing.T) {
	t.Parallel()
	k, n := newKafka(t, endpoint(t, "TEST_KAFKA_URL")), newNATS(t, endpoint(t, "TEST_NATS_URL"))
	ours := uniqueTopic()
	k.create(t, ours+"-k.x")
	outbox := newTable(t)
	for _, topic := range []string{ours + "-k", ours + "-n", ours + "-lost"} {
		outbox.insert(topic, 0, 1, 1)
	}
	d := doctor(t, outbox.env(k.url(), "OUTBOX_DESTINATIONS=k,n", "OUTBOX_DESTINATION_K_TOPICS="+ours+"-k",
		"OUTBOX_DESTINATION_N_TOPICS="+ours+"-n",
		"OUTBOX_DESTINATION_N_PUBLISH_URL="+n.url(), "OUTBOX_DESTINATION_K_TOPIC={topic}.x"))
	// It is a warning where the account has streams, since it may map the subject to one of them.
	if d.Errors > 1 || !slices.ContainsFunc(d.Findings, func(f finding) bool {
		return f.Severity != "ok" && f.Destination == "n" && strings.Contains(f.Subject+f.Found, ours+"-n")
	}) {
		t.Errorf("%+v", d.errors())
	}
	if !d.says("ok", "topic", ours+"-k.x") ||
		!d.says("warning", "topic", ours+"-lost", "no destination takes this topic") {
		t.Errorf("%+v", d.Findings)
	}
}

// TestDoctorFuture: doctor finds rows from the future.
func TestDoctorFuture(t *testing.T) {
	t.Parallel()
	topic, outbox := uniqueTopic(), newTable(t)
	outbox.insert(topic, 0, 5, 1)
	env := outbox.env("stdout:")
	if d := doctor(t, env); d.says("warning", "inserted_at") {
		t.Errorf("rows of now: %+v", d.Findings)
	}
	outbox.Exec(t, "update outbox_messages set inserted_at = now() + interval '8 hours 30 seconds'")
	if d := doctor(t, env); !d.says("warning", "inserted_at", "8h0m") {
		t.Errorf("rows of the future: %+v", d.Findings)
	}
}

// TestDoctorText checks the form for people.
func TestDoctorText(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	code, out, problems := runCommand(t, outbox.env("nats://"+nobody), "doctor")
	if code != 1 || !containsAll(out, []string{
		"database\n", "  ok       reach OUTBOX_DATABASE_URL: PostgreSQL ", "destination default\n",
		"  error    ", "           -> ", "\nerrors: 1, ",
	}) ||
		!strings.Contains(problems, "doctor found errors: 1") {
		t.Errorf("status %d:\n%s%s", code, out, problems)
	}
	if code, _, problems := runCommand(t, settings{"OUTBOX_TABEL=x"}, "doctor"); code != 2 ||
		!strings.Contains(problems, "OUTBOX_TABEL") {
		t.Errorf("status %d: %s", code, problems)
	}
}
