package e2e

import (
	"strings"
	"testing"
)

// TestTopicTemplates: the topic on the broker comes from the row's columns, for each destination in a different way. A
// row whose column is NULL fails at once and delays no other row.
func TestTopicTemplates(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	ours := uniqueTopic()
	for _, topic := range []string{ours + ".eu.orders", ours + ".us.orders", ours + ".audit.eu"} {
		b.create(t, topic)
	}
	outbox := newTable(t)
	outbox.Exec(t, `alter table outbox_messages add "Region of" text`)
	outbox.Exec(t, `insert into outbox_messages (topic, key, payload, "Region of") values
		('orders', 'a', '{"n": 0}', 'eu'), ('orders', 'b', '{"n": 1}', null), ('orders', 'b', '{"n": 2}', 'us'), ('audited',
		'a', '{"n": 3}', 'eu')`)
	r := startRelay(t, outbox.env(b.url(), "OUTBOX_DESTINATIONS=main,audit", "OUTBOX_TOPIC="+ours+".{Region of}.{topic}",
		"OUTBOX_DESTINATION_MAIN_TOPICS=orders", "OUTBOX_DESTINATION_AUDIT_TOPIC="+ours+".audit.{Region of}"))
	outbox.awaitDrained()
	for topic, number := range map[string]int{ours + ".eu.orders": 0, ours + ".us.orders": 2, ours + ".audit.eu": 3} {
		if got := b.received(t, topic); len(got) != 1 || got[0].number(t) != number {
			t.Errorf("%s got %v", topic, got)
		}
	}
	if failed := outbox.count(isFailed +
		` and "Region of" is null and attempt = 2 and last_error like '%Region of%NULL%'`); failed != 1 {
		t.Errorf("the row without a region has not failed as it should:\n%s", r.Log())
	}
}

// TestUnusableTemplate: a template that cannot be parsed is refused. One that names a column that the table lacks keeps
// the relay waiting for the column.
func TestUnusableTemplate(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	outbox.insert("orders", 0, 10, 2)
	for _, template := range []string{"a{b", "a}b", "a{}", "{a{b}}", "{{topic}"} {
		code, _, problems := runCommand(t, outbox.env("stdout:", "OUTBOX_TOPIC="+template), "run")
		if code != 2 || !strings.Contains(problems, "OUTBOX_TOPIC") ||
			!strings.Contains(problems, "write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}") {
			t.Errorf("%s: status %d: %s", template, code, problems)
		}
	}
	r := startRelay(t, outbox.env("stdout:", "OUTBOX_TOPIC={tenant}.{topic}"))
	r.awaitNotReady("no column tenant", "template")
	if touched := outbox.count("attempt <> 1 or relayed_at is not null or failed_at is not null"); touched > 0 {
		t.Errorf("%d rows were touched", touched)
	}
	outbox.Exec(t, "alter table outbox_messages add tenant text not null default 'shop'")
	r.awaitReady()
	outbox.awaitDrained()
}

// TestUnusableTemplateOfOneDestination: a template that names a column that the table lacks holds its own destination,
// which waits for the column, and no other.
func TestUnusableTemplateOfOneDestination(t *testing.T) {
	t.Parallel()
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	topic, copies := b.topic(t), b.topic(t)
	outbox := newTable(t)
	env := outbox.env(b.url(), "OUTBOX_DESTINATIONS=orders,copy", "OUTBOX_DESTINATION_ORDERS_TOPIC="+topic,
		"OUTBOX_DESTINATION_COPY_TOPIC={place}", "OUTBOX_DESTINATION_COPY_COLUMNS="+own("copy"))
	outbox.destination(env, "copy")
	outbox.insert("any", 0, 100, 7)
	r := startRelay(t, env)
	await(t, "the other destination has its rows", func() bool { return len(b.received(t, topic)) == 100 })
	r.awaitNotReady("[-]destination copy", "no column place", "[+]destination orders ok")
	if d := doctor(t, env); !d.says("error", "columns", "no column place") {
		t.Errorf("doctor says %+v", d.worse())
	}
	outbox.Exec(t, "alter table outbox_messages add place text not null default '"+copies+"'")
	r.stop() // a relay that goes on looks at the columns once a minute
	r = startRelay(t, env)
	await(t, "the copies are sent", func() bool { return len(b.received(t, copies)) == 100 })
	r.stop()
}
