package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay"
)

// minimal is a valid environment with the fewest settings.
var minimal = []string{
	"OUTBOX_DATABASE_URL=postgres://app:pw@db:5432/shop",
	"OUTBOX_PUBLISH_URL=kafka://k1:9092,k2:9092", "PATH=/bin",
}

// parse loads an environment given as NAME=value strings.
func parse(environ []string, connects bool) (*Config, error) {
	needs := Needs(0)
	if connects {
		needs = NeedDatabase | NeedBrokers
	}
	return newLoader(environ, nil).config(needs)
}

func load(t *testing.T, more ...string) *Config {
	t.Helper()
	cfg, err := parse(append(more, minimal...), true)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	cfg.scope, cfg.Destinations[0].scope = nil, nil
	cfg.SettingName, cfg.Destinations[0].SettingName = nil, nil
	cfg.Config.Destinations, cfg.Meter, cfg.Tracer, cfg.Logger = nil, nil, nil, nil // as the relay has them by default
	url := Secret{value: "postgres://app:pw@db:5432/shop", shown: "postgres://app:xxxxx@db:5432/shop"}
	want := &Config{
		Database: Database{URL: url, DirectURL: url},
		Destinations: []Destination{{
			Destination: &relay.Destination{
				Name: "default", Topic: "{topic}", WireFormat: "plain", PayloadEncoding: "none", MaxAttempts: 5,
				BackoffMin: 500 * time.Millisecond, BackoffMax: time.Minute, PublishTimeout: 10 * time.Second,
			},
			Required:      true,
			PublishURL:    Secret{value: "kafka://k1:9092,k2:9092", shown: "kafka://k1:9092,k2:9092"},
			AMQPMandatory: true,
			Kafka:         Kafka{Compression: "none", Partitioner: "murmur2", Timestamp: "insert"},
			Broker:        Broker{Protocol: publisher.ProtocolKafka, Scheme: "kafka", Hosts: []string{"k1:9092", "k2:9092"}},
		}},
		Config: relay.Config{
			Table: "outbox_messages", BatchSize: 1000, MaxInFlight: 4096, MaxInFlightBytes: 64 << 20,
			MaxRowBytes: 64 << 20, ListenChannel: "outbox_messages", Shards: 16, OwnerTTL: 10 * time.Second,
			StopTimeout: 25 * time.Second,
		},
		HTTPAddr:   ":9630",
		StatusPage: true,
		LogLevel:   slog.LevelInfo,
		LogFormat:  "json",
	}
	text := func(c *Config) string { // with what the pointer leads to
		to := fmt.Sprintf("%+v", c.Destinations[0].Destination)
		c.Destinations[0].Destination = nil
		return fmt.Sprintf("%s %+v", to, c)
	}
	if got, want := text(cfg), text(want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A poll interval that is set, even to its default, is told from none.
func TestPollInterval(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "interval")
	if err := os.WriteFile(path, []byte("70ms\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]time.Duration{
		"OUTBOX_POLL_INTERVAL=":     0,
		"OUTBOX_POLL_INTERVAL=50ms": 50 * time.Millisecond,
		"OUTBOX_POLL_INTERVAL=1h":   time.Hour, "OUTBOX_POLL_INTERVAL_FILE=" + path: 70 * time.Millisecond,
	} {
		if got := load(t, setting).PollInterval; got != want {
			t.Errorf("%s: %v", setting, got)
		}
	}
}

func TestEachSetting(t *testing.T) {
	t.Parallel()
	cfg := load(t,
		"OUTBOX_DATABASE_DIRECT_URL=host=db2 password='it\\'s'", "OUTBOX_TABLE=sales.events",
		"OUTBOX_COLUMNS=key:aggregate_id, order:seq,topic:type", "OUTBOX_BATCH_SIZE=010", "OUTBOX_MAX_IN_FLIGHT=7",
		"OUTBOX_MAX_IN_FLIGHT_BYTES=1.5GiB", "OUTBOX_POLL_INTERVAL=2s", "OUTBOX_LISTEN_CHANNEL=", "OUTBOX_SETTLE=delete",
		"OUTBOX_SHARDS=1", "OUTBOX_OWNER_TTL=1d", "OUTBOX_HTTP_ADDR=127.0.0.1:0", "OUTBOX_SHUTDOWN_TIMEOUT=1m30s",
		"OUTBOX_LOG_LEVEL=warn", "OUTBOX_LOG_FORMAT=text", "OUTBOX_TOPIC=shop.{topic}.{region}", "OUTBOX_MAX_ATTEMPTS=9",
		"OUTBOX_BACKOFF_MIN=1s", "OUTBOX_BACKOFF_MAX=1.5d", "OUTBOX_PUBLISH_TIMEOUT=3s", "OUTBOX_KAFKA_SASL_MECHANISM=PLAIN",
		"OUTBOX_KAFKA_SASL_USERNAME=u", "OUTBOX_KAFKA_SASL_PASSWORD=p")
	d := cfg.Destinations[0]
	for name, pair := range map[string][2]any{
		"direct":     {cfg.Database.DirectURL.Loaded(), "host=db2 password='it\\'s'"},
		"table":      {cfg.Table, "sales.events"},
		"columns":    {cfg.Columns, map[string]string{"key": "aggregate_id", "order": "seq", "topic": "type"}},
		"batch":      {cfg.BatchSize, 10},
		"in flight":  {cfg.MaxInFlight, 7},
		"bytes":      {cfg.MaxInFlightBytes, int64(3 << 29)},
		"row":        {cfg.MaxRowBytes, int64(3 << 29)},
		"poll":       {cfg.PollInterval, 2 * time.Second},
		"channel":    {cfg.ListenChannel, ""},
		"settle":     {cfg.Delete, true},
		"shards":     {cfg.Shards, 1},
		"ttl":        {cfg.OwnerTTL, 24 * time.Hour},
		"addr":       {cfg.HTTPAddr, "127.0.0.1:0"},
		"shutdown":   {cfg.StopTimeout, 90 * time.Second},
		"level":      {cfg.LogLevel, slog.LevelWarn},
		"format":     {cfg.LogFormat, "text"},
		"topic":      {d.Topic, "shop.{topic}.{region}"},
		"attempts":   {d.MaxAttempts, 9},
		"backoff":    {d.BackoffMin, time.Second},
		"backoff ^":  {d.BackoffMax, 36 * time.Hour},
		"timeout":    {d.PublishTimeout, 3 * time.Second},
		"mechanism":  {d.Kafka.SASLMechanism, "PLAIN"},
		"user":       {d.Kafka.Username.Loaded(), "u"},
		"password":   {d.Kafka.Password.Loaded(), "p"},
		"column":     {cfg.Column("key"), "aggregate_id"},
		"default":    {cfg.Column("payload"), "payload"},
		"order":      {(&Config{}).Column("order"), "seq"},
		"no pattern": {len(d.Topics), 0},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: got %v, want %v", name, pair[0], pair[1])
		}
	}
}

func TestKeySources(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "column:tenant", "header:x-key", "header:a:b", "payload:order.id", "topic", "none", "column:with blank",
	} {
		if got := load(t, "OUTBOX_KEY="+text).Key; got != text {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

func TestEmptyCountsAsUnset(t *testing.T) {
	t.Parallel()
	cfg := load(t, "OUTBOX_BATCH_SIZE=", "OUTBOX_SETTLE=", "OUTBOX_COLUMNS=", "OUTBOX_DESTINATIONS=", "OUTBOX_LOG_LEVEL=",
		"OUTBOX_BATCH_SIZE_FILE=", "OUTBOX_NO_SETTING=", "OUTBOX_AMQP_EXCHANGE=")
	if cfg.BatchSize != 1000 || cfg.Delete || len(cfg.Destinations) != 1 {
		t.Errorf("got %+v", cfg)
	}
}

// One newline at the end of a value, which editors and echo leave there, is not part of it, nor is the mark that editors
// put at the beginning.
func TestFinalNewline(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"shop\n": "shop", "shop\r\n": "shop", "shop\n\n": "shop\n",
		"shop": "shop", "\ufeffshop\r\n": "shop",
	} {
		for _, entry := range []string{
			"OUTBOX_KAFKA_SASL_PASSWORD_FILE=" + file(t, content),
			"OUTBOX_KAFKA_SASL_PASSWORD=" + content,
		} {
			cfg := load(t, "OUTBOX_KAFKA_SASL_MECHANISM=PLAIN", "OUTBOX_KAFKA_SASL_USERNAME=u\n", entry)
			if got := cfg.Destinations[0].Kafka.Password.Loaded(); got != want {
				t.Errorf("%q gave %q", entry, got)
			}
		}
	}
}

// A list may have an item on each line, as a block of YAML gives it.
func TestListOfLines(t *testing.T) {
	t.Parallel()
	cfg := load(t, "OUTBOX_COLUMNS=key:aggregate_id,\n  order:position\n", "OUTBOX_DESTINATIONS= a ,\n  b-c\n",
		"OUTBOX_DESTINATION_A_TOPICS=\n  x,\n  !x.y\n")
	if names := cfg.Names; !slices.Equal(names, []string{"a", "b-c"}) {
		t.Errorf("destinations %q", names)
	}
	if cfg.Column("key") != "aggregate_id" || cfg.Column("order") != "position" {
		t.Errorf("%v", cfg.Columns)
	}
}

// A switch may say what holds anyway.
func TestDefaultWithoutEffect(t *testing.T) {
	t.Parallel()
	if got := problemsOf(t, "OUTBOX_PUBLISH_URL=nats://h", "OUTBOX_NATS_TLS_FIRST=false"); got != nil {
		t.Error(got)
	}
}

// A pipe whose other end nobody opens does not hold up the program.
func TestFileIsAPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"OUTBOX_NATS_TOKEN_FILE", "OUTBOX_PAUSE_FILE"} {
		cfg, err := parse(append(slices.Clone(minimal), "OUTBOX_PUBLISH_URL=nats://h", name+"="+path), true)
		if name == "OUTBOX_PAUSE_FILE" && err == nil {
			var log strings.Builder
			cfg.Pause.On(slog.New(slog.NewTextHandler(&log, nil)))
			err = errors.New(log.String())
		}
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOfflineNeedsNoURL(t *testing.T) {
	t.Parallel()
	cfg, err := parse([]string{"OUTBOX_TABLE=events"}, false)
	if err != nil || cfg.Table != "events" {
		t.Errorf("got %v, %v", cfg, err)
	}
}

// The variables that Kubernetes sets for Services called outbox, outbox-relay and outbox-db.
func TestServiceLinksAreIgnored(t *testing.T) {
	t.Parallel()
	var links []string
	for _, service := range []string{"OUTBOX", "OUTBOX_RELAY", "OUTBOX_DB"} {
		links = append(links, service+"_SERVICE_HOST=10.0.0.1", service+"_SERVICE_PORT=9630",
			service+"_SERVICE_PORT_METRICS=9630",
			service+"_PORT=tcp://10.0.0.1:9630", service+"_PORT_9630_TCP=tcp://10.0.0.1:9630",
			service+"_PORT_9630_TCP_PROTO=tcp",
			service+"_PORT_9630_TCP_PORT=9630", service+"_PORT_9630_TCP_ADDR=10.0.0.1")
	}
	load(t, links...)
	for _, setting := range Settings() {
		if isServiceLink(setting.Name) || isServiceLink(setting.Name+fileSuffix) {
			t.Errorf("%s looks like a service link", setting.Name)
		}
	}
}

func TestLoadReadsTheProcess(t *testing.T) {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, Prefix) {
			t.Setenv(name, "")
		}
	}
	for _, entry := range minimal[:2] {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	t.Setenv("OUTBOX_HTTP_ADDR", ":1")
	cfg, err := Load(NeedAll)
	if err != nil || cfg.HTTPAddr != ":1" {
		t.Errorf("got %v, %v", cfg, err)
	}
	t.Setenv("OUTBOX_BATCH_SIZE", "wrong")
	if addr, path, err := LoadHTTP(); err != nil || addr != ":1" || path != "" {
		t.Errorf("the address alone: %q, %v", addr, err)
	}
	if _, err := Load(NeedNothing); err == nil {
		t.Error("a wrong setting was accepted")
	}
	t.Setenv("OUTBOX_HTTP_ADDR", "nonsense")
	if _, _, err := LoadHTTP(); err == nil {
		t.Error("a wrong address was accepted")
	}
}

// Every default must be a value that the setting would accept.
func TestDefaultsDecode(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"kafka", "nats", "amqp"} {
		var env []string
		for _, setting := range Settings() {
			of := setting.tag.Get("scheme")
			if setting.Default != "" && !setting.named && (of == "" || of == scheme) {
				env = append(env, setting.Name+"="+setting.Default)
			}
		}
		if len(env) < 15 {
			t.Fatalf("only %d settings have a default", len(env))
		}
		if _, err := parse(append(slices.Clone(minimal), append(env, "OUTBOX_PUBLISH_URL="+scheme+"://h")...),
			true); err != nil {
			t.Error(err)
		}
	}
}

func TestMaxRowBytesByDefault(t *testing.T) {
	for inFlight, want := range map[string]int64{"1MiB": 64 << 20, "64MiB": 64 << 20, "100MiB": 100 << 20} {
		if got := load(t, "OUTBOX_MAX_IN_FLIGHT_BYTES="+inFlight).MaxRowBytes; got != want {
			t.Errorf("with %s in flight: %d, want %d", inFlight, got, want)
		}
	}
}
