package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHealthcheck checks the command with /livez of a relay that never becomes ready.
func TestHealthcheck(t *testing.T) {
	t.Parallel()
	r := startRelay(t, settings{"OUTBOX_DATABASE_URL=postgres://" + nobody + "/db", "OUTBOX_PUBLISH_URL=stdout:"})
	r.awaitNotReady()
	if code, _, problems := runCommand(t, settings{"OUTBOX_HTTP_ADDR=" + r.Address}, "healthcheck"); code != 0 {
		t.Errorf("while the relay runs: status %d: %s", code, problems)
	}
	r.stop()
	if code, _, _ := runCommand(t, settings{"OUTBOX_HTTP_ADDR=" + r.Address}, "healthcheck"); code != 1 {
		t.Errorf("after it has stopped: status %d", code)
	}
}

// TestConfig prints every setting and no secret.
func TestConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("amqp://user:hunter2@broker:5672/vhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, problems := runCommand(t, settings{
		"OUTBOX_DATABASE_URL=postgres://user:hunter2@h/db?sslpassword=hunter2",
		"OUTBOX_PUBLISH_URL_FILE=" + file, "OUTBOX_BATCH_SIZE=500",
	}, "config")
	if code != 0 {
		t.Fatalf("status %d: %s", code, problems)
	}
	if !containsAll(out, []string{
		"OUTBOX_DATABASE_URL", "OUTBOX_PUBLISH_URL", "broker:5672", "OUTBOX_BATCH_SIZE", "500",
		"OUTBOX_OWNER_TTL", "10s",
	}) {
		t.Errorf("something is missing:\n%s", out)
	}
	if strings.Contains(out+problems, "hunter2") {
		t.Errorf("a secret is shown:\n%s", out)
	}
}

// TestSecondSignal: a second signal immediately ends a relay that still waits for a clean stop.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	b := newRabbit(t, endpoint(t, "TEST_AMQP_URL"))
	outbox := newTable(t)
	r := startRelay(t, outbox.env(b.url()))
	r.awaitReady()
	for range 2 {
		r.Signal(syscall.SIGTERM)
	}
	select {
	case <-r.Exited():
	case <-time.After(patience):
		t.Error("it still runs")
	}
}

// TestStdout publishes to the standard output: each message is a line.
func TestStdout(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	outbox.insert("orders", 0, 100, 10)
	code, out, problems := runCommand(t, outbox.env("stdout:"), "drain")
	if code != 0 || strings.Count(out, "\n") != 100 {
		t.Errorf("status %d, %d lines: %s", code, strings.Count(out, "\n"), problems)
	}
}
