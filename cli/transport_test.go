package cli

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/config"
)

// Passwords that others can read are reported once each, without the password. Passwords that stay on this host or are not sent
// are not reported.
func TestPlainPasswords(t *testing.T) {
	const safe = "postgres://app:hush@db/shop?sslmode=verify-full"
	for _, c := range []struct {
		env  []string
		says []string
	}{
		{[]string{"OUTBOX_DATABASE_URL=postgres://app:hush@db/shop", "OUTBOX_PUBLISH_URL=stdout:"}, []string{"db:5432"}},
		{[]string{
			"OUTBOX_DATABASE_URL=postgres://app:hush@db/shop?sslmode=disable",
			"OUTBOX_DATABASE_DIRECT_URL=postgres://app:hush@direct/shop?sslmode=disable", "OUTBOX_PUBLISH_URL=stdout:",
		}, []string{
			"db:5432",
			"direct:5432",
		}},
		{[]string{"OUTBOX_DATABASE_URL=postgres://app@db/shop", "OUTBOX_PUBLISH_URL=stdout:"}, nil},
		{[]string{"OUTBOX_DATABASE_URL=postgres://app:hush@127.0.0.1/shop?sslmode=disable", "OUTBOX_PUBLISH_URL=amqp://a:hush@localhost"}, nil},
		{[]string{"OUTBOX_DATABASE_URL=host=/run/postgresql password=hush", "OUTBOX_PUBLISH_URL=nats://n"}, nil},
		{[]string{"OUTBOX_DATABASE_URL=" + safe, "OUTBOX_PUBLISH_URL=amqps://a:hush@rabbit"}, nil},
		{[]string{"OUTBOX_DATABASE_URL=" + safe, "OUTBOX_PUBLISH_URL=amqp://a:hush@rabbit"}, []string{`host=rabbit `}},
		{[]string{"OUTBOX_DATABASE_URL=" + safe, "OUTBOX_PUBLISH_URL=nats://hush@n-1:4222,n-2:4222"}, []string{"n-1:4222"}},
		{[]string{"OUTBOX_DATABASE_URL=" + safe, "OUTBOX_PUBLISH_URL=nats://n-1:4222", "OUTBOX_NATS_TOKEN=hush"}, []string{"n-1:4222"}},
		{[]string{"OUTBOX_DATABASE_URL=" + safe, "OUTBOX_PUBLISH_URL=nats+tls://n-1:4222", "OUTBOX_NATS_TOKEN=hush"}, nil},
		{[]string{
			"OUTBOX_DATABASE_URL=" + safe, "OUTBOX_PUBLISH_URL=kafka://k:9092", "OUTBOX_KAFKA_SASL_MECHANISM=PLAIN",
			"OUTBOX_KAFKA_SASL_USERNAME=u", "OUTBOX_KAFKA_SASL_PASSWORD=hush",
		}, []string{"k:9092"}},
		{[]string{
			"OUTBOX_DATABASE_URL=" + safe, "OUTBOX_PUBLISH_URL=kafka://k:9092", "OUTBOX_KAFKA_SASL_MECHANISM=SCRAM-SHA-256",
			"OUTBOX_KAFKA_SASL_USERNAME=u", "OUTBOX_KAFKA_SASL_PASSWORD=hush",
		}, nil},
		{
			[]string{"OUTBOX_DATABASE_URL=" + safe, "OUTBOX_PUBLISH_URL=amqps://a:hush@rabbit", "OUTBOX_AMQP_MANAGEMENT_URL=http://rabbit:15672"},
			[]string{"rabbit:15672"},
		},
		{[]string{
			"OUTBOX_DATABASE_URL=" + safe, "OUTBOX_PUBLISH_URL=amqp://a:hush@rabbit", "OUTBOX_DESTINATIONS=one,two",
			"OUTBOX_DESTINATION_ONE_TOPICS=a",
		}, []string{"host=rabbit "}},
	} {
		if status, _, errs := execute(t, append(append([]string{
			"OUTBOX_NATS_TOKEN=", "OUTBOX_DATABASE_DIRECT_URL=", "OUTBOX_DESTINATIONS=",
			"OUTBOX_DESTINATION_ONE_TOPICS=", "OUTBOX_AMQP_MANAGEMENT_URL=",
			"OUTBOX_KAFKA_SASL_MECHANISM=", "OUTBOX_KAFKA_SASL_USERNAME=", "OUTBOX_KAFKA_SASL_PASSWORD=",
		}, c.env...), "PGPASSWORD="), "config"); status != 0 {
			t.Fatalf("%v: %s", c.env, errs)
		}
		loaded, err := config.Load(config.NeedAll)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		warnOfPlainPasswords(loaded, slog.New(slog.NewTextHandler(&log, nil)))
		if n := strings.Count(log.String(), "level=WARN"); n != len(c.says) || strings.Contains(log.String(), "hush") {
			t.Errorf("%v: %d lines: %s", c.env, n, &log)
		}
		for _, part := range c.says {
			if !strings.Contains(log.String(), part) {
				t.Errorf("%v: %s is missing: %s", c.env, part, &log)
			}
		}
	}
}
