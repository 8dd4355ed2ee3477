package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// debeziumLayout is the table of Debezium's outbox event router, without additions.
const debeziumLayout = `create table outbox (
	id uuid primary key, aggregatetype varchar(255) not null, aggregateid varchar(255) not null, type varchar(255) not
	null, payload jsonb)`

// The rows contain everything that a profile must carry: numbers beyond float64, texts beyond ASCII, empty keys and
// none, JSON null and no payload at all. $1 is the topic.
const (
	plainRows = `insert into outbox_messages (id, topic, key, payload, headers, inserted_at) values
		('00000000-0000-4000-8000-000000000001', $1, 'käse 7', '{"b": 1.50, "a": 12345678901234567890}',
		'{"traceparent": "` + traceparent +
		`", "tracestate": "shop=a b,c=1", "ce_subject": "order/7 100%"}', '2026-03-01 12:00:00.123456Z'),
		('00000000-0000-4000-8000-000000000002', $1, null, 'null', '{"retries": 2, "tenant": "Ähre"}', '2026-03-01 12:00:01Z'),
		('00000000-0000-4000-8000-000000000003', $1, '', '"Grüße"', '{"content-type": "application/vnd.order+json"}', '2026-03-01 12:00:02Z'),
		('00000000-0000-4000-8000-000000000004', $1, 'k', null, '{}', '2026-03-01 12:00:03Z')`
	debeziumRows = `insert into outbox (id, aggregatetype, aggregateid, type, payload) values
		('00000000-0000-4000-8000-000000000001', $1, 'käse 7', 'OrderPlaced', '{"b": 1.50, "a": 12345678901234567890}'),
		('00000000-0000-4000-8000-000000000002', $1, '8', 'OrderShipped', 'null'),
		('00000000-0000-4000-8000-000000000003', $1, '', 'OrderPaid', '"Grüße"'),
		('00000000-0000-4000-8000-000000000004', $1, '9', 'OrderDropped', null)`
)

// TestProfiles pins the wire format of each profile on each broker by messages read back from it: go test -run
// TestProfiles -update writes the golden files.
func TestProfiles(t *testing.T) {
	t.Parallel()
	for _, b := range brokers(t) {
		for _, profile := range []string{"plain", "cloudevents", "debezium", "phoenix_micro"} {
			t.Run(profile+"/"+b.name(), func(t *testing.T) {
				t.Parallel()
				testProfile(t, b, profile)
			})
		}
	}
}

func testProfile(t *testing.T, b broker, profile string) {
	ours := uniqueTopic()
	topic, rows := ours, plainRows
	var outbox *table
	env := []string{"OUTBOX_PROFILE=" + profile}
	if profile == "debezium" {
		topic, rows, outbox = "outbox.event."+ours, debeziumRows, newShape(t, debeziumLayout)
		env = append(env, "OUTBOX_TABLE=outbox", "OUTBOX_SETTLE=delete", "OUTBOX_COLUMNS=header.eventType:type")
	} else {
		outbox = newTable(t)
		outbox.Exec(t, "alter table outbox_messages alter payload drop not null")
	}
	b.create(t, topic)
	if rabbit, ok := b.(*rabbitBroker); ok && profile == "phoenix_micro" {
		rabbit.bindTo(t, "phoenix_micro", topic)
	}
	outbox.Exec(t, rows, ours)
	if code, _, problems := runCommand(t, outbox.env(b.url(), env...), "drain"); code != 0 {
		t.Fatalf("drain: status %d: %s", code, problems)
	}
	var messages []string
	places := strings.NewReplacer(ours, "TOPIC", outbox.identity(), "CLUSTER.DATABASE", outbox.Name, "SCHEMA")
	for _, d := range b.received(t, topic) {
		messages = append(messages, places.Replace(d.golden(b.name(), profile)))
	}
	slices.Sort(messages)
	got := strings.Join(messages, "\n")
	path := filepath.Join("testdata", "profiles", profile+"-"+b.name()+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("differs from %s: %v\n%s", path, err, got)
	}
	if profile == "debezium" {
		return
	}
	if left := outbox.count(isPending); left > 0 {
		t.Errorf("%d rows are left", left)
	}
}

// golden prints everything that a consumer can see of a message and that is the same each time.
func (d delivery) golden(broker, profile string) string {
	var s strings.Builder
	if d.id != "" {
		fmt.Fprintf(&s, "message-id: %s\n", d.id)
	}
	fmt.Fprintf(&s, "topic: %s\n", d.topic)
	if !d.keyless {
		fmt.Fprintf(&s, "key: %q\n", d.key)
	}
	// Debezium's layout has no insert time; Kafka then records when the message was sent.
	if broker != "nats" && !d.timestamp.IsZero() && (broker != "kafka" || profile != "debezium") {
		fmt.Fprintf(&s, "time: %s\n", d.timestamp.UTC().Format(time.RFC3339Nano))
	}
	for _, name := range slices.Sorted(maps.Keys(d.headers)) {
		fmt.Fprintf(&s, "header %s: %s\n", name, d.headers[name])
	}
	body := fmt.Sprintf("body: %s\n", d.body)
	if d.null {
		body = "no body\n"
	}
	// The body comes first, so that sorting the messages needs no id.
	return body + s.String()
}

// bindTo binds a queue to a durable topic exchange, which is made if necessary.
func (b *rabbitBroker) bindTo(t testing.TB, exchange, queue string) {
	t.Helper()
	channel := b.channel(t)
	defer channel.Close()
	if err := channel.ExchangeDeclare(exchange, amqp091.ExchangeTopic, true, false, false, false, nil); err != nil {
		t.Fatalf("declare exchange %s: %v", exchange, err)
	}
	if err := channel.QueueBind(queue, queue, exchange, false, nil); err != nil {
		t.Fatalf("bind queue %s: %v", queue, err)
	}
}

// TestDebeziumAsPrinted relays a table in Debezium's layout with the settings that docs/wire-formats.md prints for it.
// Its rows have keys, and no column gives their order: the log says so.
func TestDebeziumAsPrinted(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/wire-formats.md")
	if err != nil {
		t.Fatal(err)
	}
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	ours, outbox := uniqueTopic(), newShape(t, debeziumLayout)
	env := outbox.env(b.url())
	_, sample, _ := strings.Cut(string(text), "```sh\nexport OUTBOX_PROFILE=debezium\n")
	sample, _, found := strings.Cut(sample, "```")
	for line := range strings.Lines("export OUTBOX_PROFILE=debezium\n" + sample) {
		setting, _, _ := strings.Cut(strings.TrimPrefix(line, "export "), "#")
		env = append(env, strings.TrimSpace(setting))
	}
	if !found || len(env) != 6 {
		t.Fatalf("docs/wire-formats.md prints %q", sample)
	}
	b.create(t, "outbox.event."+ours)
	outbox.Exec(t, debeziumRows, ours)
	r := startRelay(t, env)
	await(t, "the rows arrive", func() bool { return len(b.received(t, "outbox.event."+ours)) == 4 })
	if !containsAll(r.Log(),
		[]string{`"level":"WARN"`, "rows are taken in the order of id uuid, which does not grow with time"}) {
		t.Error("the log does not say that rows of a key have no order")
	}
	r.stop()
}

// TestTombstones: with profile debezium a NULL payload is a tombstone only when the setting requests it.
func TestTombstones(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	ours, outbox := uniqueTopic(), newShape(t, debeziumLayout)
	b.create(t, "outbox.event."+ours)
	outbox.Exec(t, debeziumRows, ours)
	env := outbox.env(b.url(), "OUTBOX_PROFILE=debezium", "OUTBOX_DEBEZIUM_TOMBSTONES=true", "OUTBOX_TABLE=outbox",
		"OUTBOX_SETTLE=delete")
	if code, _, problems := runCommand(t, env, "drain"); code != 0 {
		t.Fatalf("drain: status %d: %s", code, problems)
	}
	null := 0
	for _, d := range b.received(t, "outbox.event."+ours) {
		if d.null {
			null++
			if d.key != "9" {
				t.Errorf("the message of key %q is a tombstone", d.key)
			}
		}
	}
	if null != 1 {
		t.Errorf("%d tombstones", null)
	}
}

// TestProfileOfDestination: two destinations use different formats for rows of one table.
func TestProfileOfDestination(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	events, audit, outbox := b.topic(t), b.topic(t), newTable(t)
	outbox.insert(events, 0, 10, 2)
	outbox.insert(audit, 10, 10, 2)
	env := outbox.env(b.url(), "OUTBOX_DESTINATIONS=events,audit", "OUTBOX_DESTINATION_EVENTS_TOPICS="+events,
		"OUTBOX_DESTINATION_EVENTS_PROFILE=cloudevents")
	if code, _, problems := runCommand(t, env, "drain"); code != 0 {
		t.Fatalf("drain: status %d: %s", code, problems)
	}
	for topic, header := range map[string]string{events: "ce_type", audit: ""} {
		got := b.received(t, topic)
		if len(got) != 10 {
			t.Errorf("%d messages arrived", len(got))
		}
		for _, d := range got {
			if (d.headers["ce_type"] == topic) != (header != "") || (d.id == "") != (header != "") {
				t.Errorf("headers %q, message id %q", d.headers, d.id)
			}
		}
	}
}
