package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNamedDestinations(t *testing.T) {
	t.Parallel()
	cfg := load(t, "OUTBOX_DESTINATIONS=orders, audit-log,copy", "OUTBOX_DESTINATION_COPY_PUBLISH_URL=amqp://rabbit",
		"OUTBOX_DESTINATION_ORDERS_TOPICS=order.*,invoice.*", "OUTBOX_DESTINATION_ORDERS_MAX_ATTEMPTS=2",
		"OUTBOX_DESTINATION_AUDIT_LOG_PUBLISH_URL_FILE="+file(t, "amqps://u:hush@rabbit/v\n"),
		"OUTBOX_DESTINATION_COPY_COLUMNS=relayed_at:x", "OUTBOX_DESTINATION_AUDIT_LOG_AMQP_EXCHANGE=",
		"OUTBOX_AMQP_EXCHANGE=shop", "OUTBOX_BACKOFF_MIN=3s",
		"OUTBOX_TLS_SERVER_NAME=rabbit.internal")
	if len(cfg.Destinations) != 3 {
		t.Fatalf("got %v", cfg.Destinations)
	}
	orders, audit, second := cfg.Destinations[0], cfg.Destinations[1], cfg.Destinations[2]
	for name, pair := range map[string][2]any{
		"name":          {orders.Name, "orders"},
		"topics":        {orders.Topics, []string{"order.*", "invoice.*"}},
		"attempts":      {orders.MaxAttempts, 2},
		"global url":    {orders.PublishURL.Loaded(), "kafka://k1:9092,k2:9092"},
		"global pause":  {orders.BackoffMin, 3 * time.Second},
		"second name":   {audit.Name, "audit-log"},
		"own url":       {audit.PublishURL.Loaded(), "amqps://u:hush@rabbit/v"},
		"shown":         {fmt.Sprint(audit.PublishURL), "amqps://u:xxxxx@rabbit/v"},
		"empty wins":    {audit.AMQPExchange, ""},
		"inherited":     {second.AMQPExchange, "shop"},
		"default":       {audit.MaxAttempts, 5},
		"no topics":     {len(audit.Topics), 0},
		"global tls":    {audit.TLS.ServerName, "rabbit.internal"},
		"global pause²": {audit.BackoffMin, 3 * time.Second},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: got %v, want %v", name, pair[0], pair[1])
		}
	}
}

// Destinations keep their state in the configured columns, or in those of the table.
func TestColumnsOfADestination(t *testing.T) {
	t.Parallel()
	const all = "relayed_at:sent,attempt:attempt,failed_at:failed_at,last_error:last_error,updated_at:updated_at"
	cfg := load(t, "OUTBOX_COLUMNS=relayed_at:sent", "OUTBOX_DESTINATIONS=a,b,c,d",
		"OUTBOX_DESTINATION_B_COLUMNS=relayed_at:x, failed_at:y",
		"OUTBOX_DESTINATION_C_COLUMNS=failed_at:y,relayed_at:x", "OUTBOX_DESTINATION_D_COLUMNS="+all,
		"OUTBOX_DESTINATION_A_TOPICS=a", "OUTBOX_DESTINATION_B_TOPICS=b")
	want := map[string]string{"relayed_at": "x", "failed_at": "y"}
	for i, d := range cfg.Destinations {
		if own := i == 1 || i == 2; own && !maps.Equal(d.Columns, want) || !own && d.Columns != nil {
			t.Errorf("%s: %v", d.Name, d.Columns)
		}
	}
	if cfg.Column("relayed_at") != "sent" {
		t.Errorf("the table's columns are %v", cfg.Columns)
	}
}

// Destinations may take what has failed or been relayed at others, also by way of a third destination, but not in a
// circle.
func TestOrigins(t *testing.T) {
	t.Parallel()
	own := []string{
		"OUTBOX_DESTINATIONS=a,b,c", "OUTBOX_DESTINATION_B_COLUMNS=relayed_at:x,failed_at:y",
		"OUTBOX_DESTINATION_C_COLUMNS=relayed_at:z,failed_at:f",
	}
	cfg := load(t, append(own, "OUTBOX_DESTINATION_B_RELAYED_OF=a", "OUTBOX_DESTINATION_C_FAILED_OF=b")...)
	if b, c := cfg.Destinations[1], cfg.Destinations[2]; b.RelayedOf != "a" || b.FailedOf != "" || c.FailedOf != "b" {
		t.Errorf("%+v and %+v", b, c)
	}
	problems := problemsOf(t, append(own, "OUTBOX_DESTINATION_B_RELAYED_OF=c", "OUTBOX_DESTINATION_C_FAILED_OF=b")...)
	if len(problems) != 2 || !strings.Contains(problems[0], "leads back to b") ||
		!strings.Contains(problems[1], "leads back to c") {
		t.Errorf("a circle: %q", problems)
	}
}

// A destination with a credential of its own would contradict an inherited one.
func TestNATSCredentialsAreNotMixed(t *testing.T) {
	t.Parallel()
	cfg := load(t, "OUTBOX_DESTINATIONS=a,b", "OUTBOX_DESTINATION_A_TOPICS=a", "OUTBOX_NATS_TOKEN=global",
		"OUTBOX_DESTINATION_A_NATS_NKEY=own",
		"OUTBOX_DESTINATION_A_PUBLISH_URL=nats://h", "OUTBOX_DESTINATION_B_PUBLISH_URL=nats://h")
	a, b := cfg.Destinations[0].NATS, cfg.Destinations[1].NATS
	if a.Token.IsSet() || a.Nkey.Loaded() != "own" || b.Token.Loaded() != "global" {
		t.Errorf("got %#v and %#v", a, b)
	}
}

// A destination's own token takes precedence over the user of a common URL; a common one beside a URL of the
// destination's own is one way to log in too many.
func TestOneWayToLogIn(t *testing.T) {
	t.Parallel()
	two := []string{"OUTBOX_DESTINATIONS=a,b", "OUTBOX_DESTINATION_A_TOPICS=a"}
	if got := problemsOf(t, append(two, "OUTBOX_PUBLISH_URL=amqps://u:hush@h",
		"OUTBOX_DESTINATION_A_AMQP_OAUTH_TOKEN=own")...); got != nil {
		t.Errorf("a token of its own: %q", got)
	}
	got := problemsOf(t, append(two, "OUTBOX_PUBLISH_URL=amqps://h", "OUTBOX_AMQP_OAUTH_TOKEN=common",
		"OUTBOX_DESTINATION_A_PUBLISH_URL=amqps://u:hush@h")...)
	if len(got) != 1 || !strings.HasPrefix(got[0], "OUTBOX_DESTINATION_A_PUBLISH_URL contains a user") {
		t.Errorf("a URL of its own with a user: %q", got)
	}
}

func TestEffectiveValues(t *testing.T) {
	t.Parallel()
	path := file(t, "7")
	cfg := load(t, "OUTBOX_BATCH_SIZE_FILE="+path, "OUTBOX_POLL_INTERVAL=1s", "OUTBOX_DESTINATIONS=a",
		"OUTBOX_DESTINATION_A_TOPIC=x")
	got := map[string]Value{}
	for _, v := range cfg.Values() {
		if _, twice := got[v.Name]; twice {
			t.Errorf("%s is there twice", v.Name)
		}
		got[v.Name] = v
	}
	for _, want := range []Value{
		{"OUTBOX_BATCH_SIZE", "7", "file " + path},
		{"OUTBOX_POLL_INTERVAL", "1s", "environment"},
		{"OUTBOX_SHARDS", "16", "default"},
		{"OUTBOX_DATABASE_URL", "postgres://app:xxxxx@db:5432/shop", "environment"},
		{"OUTBOX_DATABASE_DIRECT_URL", "postgres://app:xxxxx@db:5432/shop", "OUTBOX_DATABASE_URL"},
		{"OUTBOX_DESTINATION_A_TOPIC", "x", "environment"},
		{"OUTBOX_DESTINATION_A_PUBLISH_URL", "kafka://k1:9092,k2:9092", "OUTBOX_PUBLISH_URL"},
		{"OUTBOX_DESTINATION_A_MAX_ATTEMPTS", "5", "default"},
		{"OUTBOX_DESTINATION_A_TOPICS", "", "default"},
	} {
		if got[want.Name] != want {
			t.Errorf("got %q, want %q", got[want.Name], want)
		}
	}
	if _, there := got["OUTBOX_PUBLISH_URL"]; there {
		t.Error("the fallback is listed beside the destination that has it")
	}
	common := slices.DeleteFunc(Settings(), func(s Setting) bool { return s.named })
	if one := load(t).Values(); len(one) != len(common) {
		t.Errorf("the default destination shows %d values", len(one))
	}
}
