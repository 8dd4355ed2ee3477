package e2e

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// TestDeploymentForEachDestination runs a deployment for each of three destinations of one table, the last of which
// takes the topics b.* only. Each row goes once to each destination that takes it, also while a replica is killed and
// one with two of the destinations comes and goes. While nobody relays a destination, everybody says so, and nobody
// deletes its rows.
func TestDeploymentForEachDestination(t *testing.T) {
	t.Parallel()
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	orders, copies, mails := b.topic(t), b.topic(t), b.topic(t)
	outbox := newTable(t)
	common := outbox.env(b.url(), "OUTBOX_OWNER_TTL=1s", "OUTBOX_DESTINATION_AUDIT_COLUMNS="+own("audit"),
		"OUTBOX_DESTINATION_AUDIT_TOPIC="+copies, "OUTBOX_DESTINATION_MAIL_COLUMNS="+own("mail"),
		"OUTBOX_DESTINATION_MAIL_TOPIC="+mails, "OUTBOX_DESTINATION_MAIL_TOPICS=b.*",
		"OUTBOX_DESTINATION_ORDERS_TOPIC="+orders)
	with := func(names string) settings {
		env := append(settings{}, common...)
		for _, name := range []string{"ORDERS", "AUDIT", "MAIL"} { // the variables of others are errors
			if !strings.Contains(names, strings.ToLower(name)) {
				env = without(env, "OUTBOX_DESTINATION_"+name+"_")
			}
		}
		return append(env, "OUTBOX_DESTINATIONS="+names)
	}
	outbox.destination(with("orders,audit,mail"), "audit", "mail")
	first, audit, mail := startRelay(t, with("orders")), startRelay(t, with("audit")), startRelay(t, with("mail"))
	for _, r := range []*relay{first, audit, mail} {
		await(t, "it owns all of its destination", func() bool { return r.owns(16) })
		r.awaitReady()
	}
	rows := 0
	insert := func() {
		for _, topic := range []string{"a.x", "b.x"} {
			outbox.insert(topic, rows, 500, 20)
			rows += 500
		}
	}
	insert()
	audit.Kill()
	audit = startRelay(t, with("audit"))
	insert()
	both := startRelay(t, with("orders,audit"))
	await(t, "it shares the work of two", func() bool {
		return both.owns(16) && first.owns(8) && audit.owns(8) && mail.owns(16)
	})
	insert()
	await(t, "it counts the replicas of a destination", func() bool { return first.metric("replicas") == "2" })
	both.stop()
	mail.stop()
	insert()
	await(t, "the metric says that nobody relays a destination", func() bool {
		return first.metric("shards_unowned") == "16"
	})
	const nobody = "no replica relays "
	if status, body := first.get("/readyz?verbose"); status != 200 || !strings.Contains(body, nobody+"mail") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	await(t, "the log says so, too", func() bool {
		return containsAll(first.Log(),
			[]string{"rows wait for a destination that no replica relays", `"destinations":"mail"`})
	})
	if d := doctor(t, with("audit")); !d.says("warning", "replicas", nobody+"destination mail", "mail_relayed_at",
		"drop these columns") ||
		!d.says("ok", "replicas", "those with the state in the table's own columns", "relayed by others: 1") {
		t.Errorf("doctor says %+v", d)
	}
	code, out, _ := runCommand(t, with("orders"), "status", "--json")
	var report operate.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 ||
		!strings.Contains(strings.Join(report.Problems, " "), nobody+"mail") ||
		report.Ownership.Owned != 32 || report.Ownership.Unowned != 16 || len(report.Ownership.Groups) != 3 {
		t.Errorf("status: %d %s (%v)", code, out, err)
	}
	if code, _, problems := runCommand(t, with("orders,audit"), "prune", "--older-than", "0s", "--yes"); code != 1 ||
		!strings.Contains(problems, "(mail)") {
		t.Errorf("prune: %d %s", code, problems)
	}
	mail = startRelay(t, with("mail"))
	await(t, "somebody relays it again", func() bool { return first.metric("shards_unowned") == "0" })
	const left = "relayed_at is null or audit_relayed_at is null or topic = 'b.x' and mail_relayed_at is null"
	await(t, "all is relayed", func() bool { return outbox.count(left) == 0 })
	second := func(n int) bool { return n/500%2 == 1 }
	for name, c := range map[string]struct {
		topic string
		fits  func(int) bool
	}{"orders": {orders, all}, "mail": {mails, second}} {
		if got := numbers(t, b.received(t, c.topic)); !maps.Equal(got, once(rows, c.fits)) {
			t.Errorf("%s: %d rows have arrived, or some twice", name, len(got))
		}
	}
	if got := numbers(t, b.received(t, copies)); len(got) != rows { // a kill may double some
		t.Errorf("audit: %d of %d rows have arrived", len(got), rows)
	}
	for _, r := range []*relay{first, audit, mail} {
		if held := r.metric(`rows_held{destination="none",reason="topology"}`); held != "" && held != "0" {
			t.Errorf("%s rows are reported as taken by nobody", held)
		}
		r.stop()
	}
	if code, _, problems := runCommand(t, with("orders,audit,mail"), "prune", "--older-than", "0s", "--yes"); code != 0 ||
		outbox.count(everyRow) != 0 {
		t.Errorf("prune where all are configured: %d %s", code, problems)
	}
}

// without removes the settings that begin with a prefix.
func without(env settings, prefix string) settings {
	var rest settings
	for _, s := range env {
		if !strings.HasPrefix(s, prefix) {
			rest = append(rest, s)
		}
	}
	return rest
}

// TestDeploymentsThatDivideTheRowsDifferently: of two deployments whose destinations have the same columns and other
// topics, the second stands by, is ready, and says why.
func TestDeploymentsThatDivideTheRowsDifferently(t *testing.T) {
	t.Parallel()
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	topic, outbox := b.topic(t), newTable(t)
	env := outbox.env(b.url(), "OUTBOX_OWNER_TTL=1s", "OUTBOX_TOPIC="+topic)
	everything := startRelay(t, env)
	await(t, "it owns everything", func() bool { return everything.owns(16) })
	some := startRelay(t, append(env, "OUTBOX_DESTINATIONS=mail", "OUTBOX_DESTINATION_MAIL_TOPICS=b.*"))
	some.awaitReady()
	const why = "other destinations in the same columns"
	await(t, "it says why it waits", func() bool {
		_, body := some.get("/readyz?verbose")
		return strings.Contains(body, why) && strings.Contains(some.Log(), why) && some.owns(0)
	})
	d := doctor(t, append(env, "OUTBOX_DESTINATIONS=mail", "OUTBOX_DESTINATION_MAIL_TOPICS=b.*"))
	if !d.says("warning", "replicas", "a replica with these settings waits", "with the same names and topics") {
		t.Errorf("doctor says %+v", d.worse())
	}
	outbox.insert("b.x", 0, 500, 20)
	outbox.insert("a.x", 500, 500, 20)
	outbox.awaitDrained()
	if got := numbers(t, b.received(t, topic)); !maps.Equal(got, once(1000, all)) {
		t.Errorf("%d of 1000 rows have arrived, or some twice", len(got))
	}
	everything.stop()
	await(t, "it takes over", func() bool { return some.owns(16) })
	some.stop()
}
