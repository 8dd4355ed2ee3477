package cli

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/config"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// execute runs a command line in an environment without other settings.
func execute(t *testing.T, env []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, config.Prefix) {
			t.Setenv(name, "")
		}
	}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	var out, errs strings.Builder
	status = (&program{}).execute(t.Context(), args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

var connections = []string{
	"OUTBOX_DATABASE_URL=postgres://app:hush@db/shop",
	"OUTBOX_PUBLISH_URL=amqp://app:hush@rabbit",
}

// Texts for people and formats for scripts: go test ./cli -update rewrites the files.
func TestGolden(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		args string
	}{
		"help":             {nil, "--help"},
		"help-kafka":       {nil, "help settings kafka"},
		"help-run":         {nil, "run --help"},
		"help-drain":       {nil, "help drain"},
		"help-doctor":      {nil, "doctor --help"},
		"help-schema":      {nil, "schema --help"},
		"help-grants":      {nil, "grants --help"},
		"help-config":      {nil, "config --help"},
		"help-healthcheck": {nil, "healthcheck --help"},
		"help-licenses":    {nil, "licenses --help"},
		"help-version":     {nil, "version --help"},
		"help-status":      {nil, "status --help"},
		"help-failed":      {nil, "failed --help"},
		"help-failed-list": {nil, "failed list --help"},
		"help-failed-show": {nil, "failed show --help"},
		"help-retry":       {nil, "failed retry --help"},
		"help-discard":     {nil, "failed discard --help"},
		"help-replay":      {nil, "replay --help"},
		"help-verify":      {nil, "verify --help"},
		"help-completion":  {nil, "completion --help"},

		"help-prune": {nil, "prune --help"},
		"schema-partitioned": {[]string{
			"OUTBOX_TABLE=shop.Outbox", "OUTBOX_PUBLISH_URL=stdout:", "OUTBOX_DESTINATIONS=orders,audit",
			"OUTBOX_DESTINATION_AUDIT_COLUMNS=relayed_at:audit_relayed_at,failed_at:audit_failed_at",
			"OUTBOX_DESTINATION_AUDIT_TOPICS=it's.*",
		}, "schema --partitioned"},
		"schema": {nil, "schema"},
		"schema-destination": {[]string{
			"OUTBOX_TABLE=shop.Outbox", "OUTBOX_DESTINATIONS=orders,audit",
			"OUTBOX_DESTINATION_AUDIT_TOPICS=order.*,!*.internal",
			"OUTBOX_DESTINATION_AUDIT_COLUMNS=relayed_at:audit_relayed_at,attempt:audit_attempt,failed_at:audit_failed_at",
		}, "schema --destination audit"},
		"schema-destination-delays": {[]string{
			"OUTBOX_TABLE=shop.Outbox", "OUTBOX_DESTINATIONS=orders,audit",
			"OUTBOX_DESTINATION_AUDIT_COLUMNS=relayed_at:audit_relayed_at",
		}, "schema --destination audit --delays"},
		"schema-dead-letters": {
			[]string{
				"OUTBOX_DESTINATIONS=orders,dead", "OUTBOX_DESTINATION_DEAD_FAILED_OF=orders",
				"OUTBOX_DESTINATION_DEAD_COLUMNS=relayed_at:dead_relayed_at",
			},
			"schema --destination dead",
		},
		"schema-delays": {
			[]string{"OUTBOX_TABLE=shop.Outbox", "OUTBOX_COLUMNS=available_at:run_at,order:position,priority:rank"},
			"schema --delays",
		},
		"schema-mapped": {
			[]string{"OUTBOX_COLUMNS=id:message id,order:pos,relayed_at:sent,priority:rank,header.tenant:tenant,topic:type"},
			"schema --delays",
		},
		"schema-partitioned-mapped": {
			[]string{
				"OUTBOX_COLUMNS=inserted_at:it's,relayed_at:sent,topic:type", "OUTBOX_DESTINATIONS=a,b",
				"OUTBOX_DESTINATION_B_TOPICS=b.*",
				"OUTBOX_DESTINATION_B_COLUMNS=relayed_at:b_at",
			},
			"schema --partitioned",
		},
		"schema-doorbell": {[]string{"OUTBOX_TABLE=shop.Outbox", "OUTBOX_LISTEN_CHANNEL=it's mine"}, "schema --doorbell"},
		"grants":          {nil, "grants --role relay"},
		"grants-mapped": {
			[]string{"OUTBOX_TABLE=shop.outbox", "OUTBOX_COLUMNS=last_error:problem,relayed_at:sent at"},
			"grants --role Relay",
		},
		"grants-operate": {[]string{
			"OUTBOX_DESTINATIONS=orders,audit",
			"OUTBOX_DESTINATION_AUDIT_COLUMNS=relayed_at:audit_at,failed_at:audit_failed",
		}, "grants --role ops --for operate"},
		"grants-prune":  {nil, "grants --role cleaner --for prune"},
		"grants-delete": {[]string{"OUTBOX_TABLE=shop.outbox", "OUTBOX_SETTLE=delete"}, "grants --role relay"},
		"config":        {connections, "config"},
		"config-destinations": {append([]string{
			"OUTBOX_DESTINATIONS=orders,audit", "OUTBOX_DESTINATION_ORDERS_TOPICS=order.*",
			"OUTBOX_DESTINATION_ORDERS_PUBLISH_URL=kafka+tls://k:9093", "OUTBOX_DESTINATION_ORDERS_KAFKA_SASL_MECHANISM=PLAIN",
			"OUTBOX_DESTINATION_ORDERS_KAFKA_SASL_USERNAME=u\n", "OUTBOX_DESTINATION_ORDERS_KAFKA_SASL_PASSWORD=hush\r\n",
			"OUTBOX_CLOUDEVENTS_SOURCE=/shop",
		}, connections...), "config"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := execute(t, c.env, strings.Fields(c.args)...)
			if status != 0 || errs != "" {
				t.Fatalf("status %d: %s", status, errs)
			}
			if strings.Contains(out, "hush") {
				t.Error("a secret was printed")
			}
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || string(want) != out {
				t.Errorf("differs from %s (go test ./cli -update rewrites it): %v\n%s", path, err, out)
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		env    []string
		args   string
		status int
		want   string
	}{
		{nil, "runn", 2, "outbox-relay: unknown command \"runn\" for \"outbox-relay\"\n\nDid you mean this?\n\trun\n\tprune\n"},
		{nil, "publish", 2, `outbox-relay: unknown command "publish" for "outbox-relay"`},
		{nil, "--table=x", 2, "outbox-relay: unknown flag: --table; see outbox-relay --help"},
		{nil, "schema --doorbel", 2, "outbox-relay: unknown flag: --doorbel; see outbox-relay schema --help"},
		{nil, "schema x", 2, `outbox-relay: unknown command "x" for "outbox-relay schema"`},
		{
			connections, "prune --yes", 2,
			"outbox-relay: prune requires --older-than D, such as 7d",
		},
		{nil, "failed", 2, "outbox-relay: failed requires one of list, show, retry and discard"},
		{nil, "failed rety", 2, `outbox-relay: unknown command "rety" for "outbox-relay failed"`},
		{
			nil, "failed list --since 3x", 2,
			"outbox-relay: --since \"3x\": write a time as 2026-03-01T12:00:00Z, " +
				"or how long ago as 90s, 2h or 3d",
		},
		{connections, "drain --timeout 0", 2, "outbox-relay: --timeout must be more than 0"},
		{connections, "drain --timeout=-1s", 2, "outbox-relay: --timeout must be more than 0"},
		{nil, "failed discard --keep", 2, "outbox-relay: --keep requires --reason TEXT"},

		{nil, "grants", 2, "outbox-relay: grants requires --role NAME, the database role of the relay"},
		{nil, "grants --role x --for all", 2, `outbox-relay: a role is for relay, operate or prune, not for "all"`},
		{
			nil, "schema --destination x", 2,
			"outbox-relay: no destination is called x; those of OUTBOX_DESTINATIONS are default",
		},
		{
			nil, "schema --destination default", 2,
			"outbox-relay: destination default keeps its state in the columns of the table; set " +
				"OUTBOX_DESTINATION_…_COLUMNS to give it columns of its own",
		},
		{nil, "grants --role", 2, "outbox-relay: flag needs an argument: --role; see outbox-relay grants --help"},
		{
			[]string{"OUTBOX_LISTEN_CHANNEL="},
			"schema --doorbell", 2,
			"outbox-relay: OUTBOX_LISTEN_CHANNEL is empty, so no relay would hear the " +
				"doorbell; set it, or leave out --doorbell",
		},
		{[]string{"OUTBOX_SHARDS=0"}, "schema", 2, `outbox-relay: configuration: OUTBOX_SHARDS="0" must be at least 1`},
		{
			[]string{"OUTBOX_HTTP_ADDR=x"},
			"healthcheck", 2,
			`outbox-relay: configuration: OUTBOX_HTTP_ADDR="x" is not an address; write host:port, or :9630 for all interfaces`,
		},
		{[]string{"OUTBOX_PUBLISH_URL=stdout:", "OUTBOX_TOPIC={"}, "config", 2, "outbox-relay: configuration: 2 problems\n" +
			"  OUTBOX_DATABASE_URL is required; write postgres://user:password@host:5432/database or host=… user=… " +
			"dbname=…, or set OUTBOX_DATABASE_URL_FILE to the path of a file\n" +
			`  OUTBOX_TOPIC="{" has a brace alone; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}, or {{ and }} for braces`},
		{
			append([]string{"OUTBOX_TABEL=hush"}, connections...), "run", 2,
			`outbox-relay: configuration: OUTBOX_TABEL is an unknown variable; see outbox-relay help settings, where * ` +
				`marks what may be set for one of the destinations that OUTBOX_DESTINATIONS lists`,
		},
		{
			append([]string{"OUTBOX_TABEL=hush"}, connections...), "", 2,
			`outbox-relay: configuration: OUTBOX_TABEL is an unknown variable; see outbox-relay help settings, where * ` +
				`marks what may be set for one of the destinations that OUTBOX_DESTINATIONS lists`,
		},
		{
			append([]string{"OUTBOX_TABEL=hush"}, connections...), "drain", 2,
			`outbox-relay: configuration: OUTBOX_TABEL is an unknown variable; see outbox-relay help settings, where * ` +
				`marks what may be set for one of the destinations that OUTBOX_DESTINATIONS lists`,
		},
	} {
		t.Run(c.args, func(t *testing.T) {
			status, out, errs := execute(t, c.env, strings.Fields(c.args)...)
			if status != c.status || errs != c.want+"\n" || out != "" {
				t.Errorf("status %d, output %q, errors\n%s\nwant\n%s", status, out, errs, c.want)
			}
		})
	}
}

// The program contains the licences: its own, Go's and those of all modules.
func TestLicenses(t *testing.T) {
	status, out, errs := execute(t, nil, "licenses")
	if status != 0 || errs != "" || !strings.HasPrefix(out, "outbox-relay\n") {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, part := range []string{"Apache License", "Go's standard library", "github.com/jackc/pgx/v5 v", "MIT License"} {
		if !strings.Contains(out, part) {
			t.Errorf("%s is missing", part)
		}
	}
}

func TestVersion(t *testing.T) {
	status, out, _ := execute(t, nil, "version")
	lines := strings.Split(out, "\n")
	if status != 0 || len(lines) != 4 || !strings.HasPrefix(lines[0], "outbox-relay ") ||
		len(lines[0]) == len("outbox-relay ") ||
		!strings.HasPrefix(lines[1], "commit ") || lines[2] != runtime.Version() {
		t.Errorf("status %d: %s", status, out)
	}
}

// The health check reads only the address, so that a broken secret does not restart the relay.
func TestHealthcheck(t *testing.T) {
	live := http.StatusOK
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" {
			w.WriteHeader(live)
		}
	}))
	env := []string{"OUTBOX_HTTP_ADDR=" + relay.Listener.Addr().String(), "OUTBOX_BATCH_SIZE=wrong"}
	if status, _, errs := execute(t, env, "healthcheck"); status != 0 || errs != "" {
		t.Errorf("live: status %d: %s", status, errs)
	}
	live = http.StatusServiceUnavailable
	if status, _, errs := execute(t, env, "healthcheck"); status != 1 || !strings.Contains(errs, "answers 503") {
		t.Errorf("stuck: status %d: %s", status, errs)
	}
	relay.Close()
	if status, _, errs := execute(t, env, "healthcheck"); status != 1 || !strings.Contains(errs, "connection refused") {
		t.Errorf("gone: status %d: %s", status, errs)
	}
	if _, _, errs := execute(t, []string{"OUTBOX_HTTP_ADDR=:1"}, "healthcheck"); strings.Count(errs, "\n") != 1 {
		t.Errorf("on both loopback addresses: %q", errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status := (&program{}).execute(ctx, []string{"healthcheck"}, nil, &strings.Builder{},
		&strings.Builder{}); status != 1 {
		t.Errorf("stopped: status %d", status)
	}
}

func TestLogger(t *testing.T) {
	for format, want := range map[string]string{"json": `"msg":"up"`, "text": "msg=up"} {
		var out strings.Builder
		logger := newLogger(&out, &config.Config{LogFormat: format})
		logger.Debug("down")
		logger.Info("up")
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "down") {
			t.Errorf("%s: %s", format, &out)
		}
	}
}
