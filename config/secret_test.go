package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

func TestRedaction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, text, want string }{
		{"true", "hush", "[redacted]"},
		{"true", "postgres://u:p@h", "[redacted]"},
		{
			"database", "postgres://u:hush@h:1,h2:2/d?sslmode=require&password=hush&sslpassword=hush",
			"postgres://u:xxxxx@h:1,h2:2/d?sslmode=require&password=xxxxx&sslpassword=xxxxx",
		},
		{"database", "postgres://u:hush@sh@h/d", "postgres://u:xxxxx@h/d"},
		{"database", "postgres://u:hu/sh@h/d", "[redacted]"},
		{"database", "postgres://u:1?hush@h/d", "[redacted]"},
		{"database", "postgres://u:1#hush", "[redacted]"},
		{"database", "postgresql:///d?host=/tmp", "postgresql:///d?host=/tmp"},
		{"database", "host=h user=u password=hush dbname=d", "[redacted]"},
		{"database", "mysql://u:hush@h/d?x=1", "[redacted]"},
		{"database", "hush", "[redacted]"},
		{"broker", "stdout:", "stdout:"},
		{"broker", "amqp://u:hush@h:5672/v?heartbeat=3&auth=hush", "amqp://u:xxxxx@h:5672/v?heartbeat=3&auth=xxxxx"},
		{"broker", "amqp://u@h", "amqp://xxxxx@h"},
		{"broker", "nats://hush@h:4222", "nats://xxxxx@h:4222"},
		{"broker", "nats+tls://u:hush@h:4222", "nats+tls://u:xxxxx@h:4222"},
		{"broker", "hush", "[redacted]"},
		{"broker", "amqp://u:p@h/v?password=a&hush", "[redacted]"},
		{"broker", "", ""},
	} {
		if got := (Setting{tag: reflect.StructTag(`secret:"` + c.kind + `"`)}).redact(c.text); got != c.want {
			t.Errorf("%s %q: got %q, want %q", c.kind, c.text, got, c.want)
		}
	}
}

// No way of printing a configuration shows a secret.
func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	cfg := load(t, "OUTBOX_DATABASE_DIRECT_URL=postgres://u:hush@h/d", "OUTBOX_KAFKA_SASL_MECHANISM=PLAIN",
		"OUTBOX_KAFKA_SASL_USERNAME=hush", "OUTBOX_KAFKA_SASL_PASSWORD_FILE="+file(t, "hush"))
	out, err := json.Marshal([]any{cfg.Database, cfg.Destinations[0].PublishURL, cfg.Destinations[0].Kafka})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "config", cfg, "secret", cfg.Database.DirectURL)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", cfg, "secret", cfg.Database.DirectURL)
	all := string(out) + log.String() + fmt.Sprintf("%v %+v %#v %s %q", cfg.Database, cfg.Destinations, cfg.Destinations,
		cfg.Database.DirectURL, cfg.Database.DirectURL)
	for _, v := range cfg.Values() {
		all += v.Text
	}
	if strings.Contains(all, "hush") {
		t.Error("a secret was printed: " + all)
	}
	if !strings.Contains(all, "postgres://u:xxxxx@h/d") {
		t.Error("the harmless part was not printed")
	}
}

// Every field of type Secret has the tag that keeps it from being printed, and no other field has it.
func TestSecretFieldsAreMarked(t *testing.T) {
	t.Parallel()
	var walk func(reflect.Type)
	walk = func(in reflect.Type) {
		for field := range in.Fields() {
			tagged := field.Tag.Get("secret") != ""
			switch {
			case field.Type == reflect.TypeFor[Secret]() || tagged:
				if !tagged || field.Type != reflect.TypeFor[Secret]() {
					t.Errorf("%s: the type and the tag disagree", field.Name)
				}
			case field.Type == reflect.TypeFor[[]Destination]():
				walk(field.Type.Elem())
			case field.Type.Kind() == reflect.Struct:
				walk(field.Type)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
}

func TestSecretIsReadAgain(t *testing.T) {
	t.Parallel()
	path := file(t, "old\n")
	cfg := load(t, "OUTBOX_KAFKA_SASL_MECHANISM=PLAIN", "OUTBOX_KAFKA_SASL_USERNAME=u",
		"OUTBOX_KAFKA_SASL_PASSWORD_FILE="+path)
	password := cfg.Destinations[0].Kafka.Password
	if err := os.WriteFile(path, []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := password.Read(); got != "new" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, err := password.Read(); got != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after its removal: %q, %v", got, err)
	}
	if got, err := (Secret{value: "kept"}).Read(); got != "kept" || err != nil {
		t.Errorf("without a file: %q, %v", got, err)
	}
}

// The settings for TLS are also accepted if only RabbitMQ's management interface uses it.
func TestManagementTLS(t *testing.T) {
	t.Parallel()
	if problems := problemsOf(t, "OUTBOX_PUBLISH_URL=amqp://h", "OUTBOX_AMQP_MANAGEMENT_URL=https://u:hush@h:15671/prefix",
		"OUTBOX_TLS_SERVER_NAME=n"); problems != nil {
		t.Error(problems)
	}
}

// Two braces stand for one.
func TestBracesInTemplates(t *testing.T) {
	t.Parallel()
	if problems := problemsOf(t, "OUTBOX_PUBLISH_URL=amqp://h", "OUTBOX_TOPIC={{{a}}}{{b",
		"OUTBOX_AMQP_EXCHANGE=}}{topic}{{"); problems != nil {
		t.Error(problems)
	}
}

func TestParseBroker(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Broker{
		"stdout:":       {Scheme: schemeStdout},
		"kafka://a:1,b": {Protocol: publisher.ProtocolKafka, Scheme: "kafka", Hosts: []string{"a:1", "b:9092"}},
		"KAFKA+TLS://[::1]:9092,a": {
			Protocol: publisher.ProtocolKafka, TLS: true, Scheme: "kafka+tls",
			Hosts: []string{"[::1]:9092", "a:9092"},
		},
		"kafka://[fe80::1%eth0]:9092": {
			Protocol: publisher.ProtocolKafka, Scheme: "kafka", Hosts: []string{"[fe80::1%eth0]:9092"},
		},
		"nats://tok%40en@h/": {
			Protocol: publisher.ProtocolNATS, Scheme: "nats", Hosts: []string{"h:4222"}, User: url.User("tok@en"),
		},
		"nats+tls://u:@h": {
			Protocol: publisher.ProtocolNATS, TLS: true, Scheme: "nats+tls", Hosts: []string{"h:4222"},
			User: url.UserPassword("u", ""),
		},
		"amqps://u:p%2F+q@h:1/v?heartbeat=3": {
			Protocol: publisher.ProtocolAMQP, TLS: true, Scheme: "amqps", Hosts: []string{"h:1"},
			User: url.UserPassword("u", "p/+q"),
		},
	} {
		if got, err := parseBroker(text, nil); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
}

func FuzzRedact(f *testing.F) {
	for _, seed := range []string{"u:S3cret!@h/d", "u:S3cret!@h?password=S3cret!", "S3cret!@h"} {
		f.Add("postgres://"+seed, "host=h password=S3cret! user=u")
	}
	f.Fuzz(func(t *testing.T, url, dsn string) {
		_, _ = parseBroker(url, nil)
		_, _ = ParseDatabase(dsn)
		// A password in its proper place is not shown, whatever surrounds it.
		for _, text := range []string{
			"postgres://u:S3cret!@h/" + url, "password=S3cret! " + dsn,
			"password='S3cret!' " + dsn,
		} {
			if shown := (Setting{tag: reflect.StructTag(`secret:"` + "database" + `"`)}).redact(text); strings.Contains(shown,
				"S3cret!") &&
				!strings.Contains(url, "S3cret!") && !strings.Contains(dsn, "S3cret!") {
				t.Errorf("%q is shown as %q", text, shown)
			}
		}
	})
}
