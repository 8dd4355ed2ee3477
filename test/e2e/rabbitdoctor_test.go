package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

// TestDoctorQueues: with RabbitMQ's management interface, doctor reports which queues are bound and how durable
// an acknowledged message is. Without the interface it reports that this was not checked.
func TestDoctorQueues(t *testing.T) {
	t.Parallel()
	b := newRabbit(t, endpoint(t, "TEST_AMQP_URL"))
	management := endpoint(t, "TEST_AMQP_MANAGEMENT_URL")
	quorum, dropping, exchange := b.topic(t), uniqueTopic(), uniqueTopic()
	channel := b.channel(t)
	if err := channel.ExchangeDeclare(exchange, amqp091.ExchangeTopic, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare(dropping, true, false, false, false,
		amqp091.Table{"x-max-length": 1000}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = channel.QueueDelete(dropping, false, false, false)
		_ = channel.ExchangeDelete(exchange, false, false)
	})
	for queue, pattern := range map[string]string{quorum: "order.*", dropping: "invoice.#"} {
		if err := channel.QueueBind(queue, pattern, exchange, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	outbox := newTable(t)
	for i, topic := range []string{"order.placed", "invoice.sent.late", "nobody.listens"} {
		outbox.insert(topic, i, 1, 1)
	}
	env := outbox.env(b.url(), "OUTBOX_AMQP_EXCHANGE="+exchange)
	if d := doctor(t, env); d.Errors > 0 ||
		!d.says("warning", "management", "OUTBOX_AMQP_MANAGEMENT_URL", "was not looked at") {
		t.Errorf("without the interface: %+v", d.worse())
	}

	path := filepath.Join(t.TempDir(), "management")
	if err := os.WriteFile(path, []byte(management), 0o600); err != nil {
		t.Fatal(err)
	}
	d := doctor(t, append(env, "OUTBOX_AMQP_MANAGEMENT_URL_FILE="+path))
	for _, want := range [][]string{
		{"ok", "management", "were looked at"},
		{"ok", "durability", exchange, "durable, of type topic"},
		{"ok", "topic", exchange, "2 queues are bound to it"},
		{"ok", "durability", quorum, "it is durable"},
		{"warning", "replication", quorum, "quorum queue", "of whose 1 members 1 are there"},
		{"warning", "replication", dropping, "classic queue", "use a quorum queue"},
		{"warning", "limits", dropping, "throws away", "reject-publish"},
	} {
		if !d.says(want[0], want[1], want[2:]...) {
			t.Errorf("it does not say %q: %+v", want, d.Findings)
		}
	}
	if d.Errors != 0 {
		t.Errorf("%+v", d.errors())
	}

	wrong := strings.Replace(management, "://guest:guest@", "://guest:hunter2@", 1)
	d = doctor(t, outbox.env(b.url(), "OUTBOX_DESTINATIONS=shop", "OUTBOX_DESTINATION_SHOP_AMQP_EXCHANGE="+exchange,
		"OUTBOX_DESTINATION_SHOP_AMQP_MANAGEMENT_URL="+wrong))
	if d.Errors > 0 || !d.says("warning", "management", `answers 401 Unauthorized to user "guest"`,
		"OUTBOX_DESTINATION_SHOP_AMQP_MANAGEMENT_URL") {
		t.Errorf("with a wrong password: %+v", d.worse())
	}
	_, out, problems := runCommand(t, append(env, "OUTBOX_AMQP_MANAGEMENT_URL="+wrong), "config")
	if shown := strings.Replace(wrong, "hunter2", "xxxxx", 1); !strings.Contains(out, shown) ||
		strings.Contains(out+problems, "hunter2") {
		t.Errorf("the configuration is shown as\n%s%s", out, problems)
	}
}
