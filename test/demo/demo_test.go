package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/test/demo/broker"
	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
)

// buildRelay returns the path of the real binary.
func buildRelay(t *testing.T) string {
	t.Helper()
	path, err := services.Relay(t.Context(), filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// files returns an environment with a directory for temporary files, and a function that lists them.
func files(t *testing.T) (getenv func(string) string, list func() []string) {
	dir := t.TempDir()
	getenv = func(name string) string {
		if name == "TMPDIR" {
			return dir
		}
		return os.Getenv(name)
	}
	return getenv, func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	relay := buildRelay(t)
	for _, kind := range broker.Kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			getenv, left := files(t)
			var out, errs bytes.Buffer
			status := run(t.Context(), []string{"--broker", kind, "--relay", relay, "--duration", "2s", "--rate", "100"},
				getenv, &out, &errs)
			if status != exitDone || !strings.Contains(out.String(), "\nRIGHT: ") || errs.Len() > 0 {
				t.Errorf("status %d\n%s%s", status, &out, &errs)
			}
			if found := left(); len(found) > 0 {
				t.Errorf("left behind: %v", found)
			}
		})
	}
}

// A relay that marks rows and publishes them elsewhere is detected, and its log is kept.
func TestDemoFindsLostMessages(t *testing.T) {
	t.Parallel()
	real := buildRelay(t)
	relay := filepath.Join(t.TempDir(), "liar")
	script := "#!/bin/sh\n[ \"$1\" != run ] || export OUTBOX_PUBLISH_URL=stdout:\nexec '" + real + "' \"$@\"\n"
	if err := os.WriteFile(relay, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	getenv, left := files(t)
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"--relay", relay, "--duration", "1s", "--patience", "500ms"}, getenv, &out,
		&errs)
	if status != exitFailed || !strings.Contains(out.String(), "WRONG: ") ||
		!strings.Contains(out.String(), string(ledger.Missing)) ||
		strings.Contains(out.String(), "RIGHT: ") || errs.Len() > 0 {
		t.Errorf("status %d\n%s%s", status, &out, &errs)
	}
	found := left()
	if len(found) != 2 || filepath.Base(found[0]) != "relay-1.log" ||
		!strings.Contains(out.String(), filepath.Dir(found[0])) {
		t.Errorf("left behind: %v\n%s", found, &out)
	}
}

// An interrupted demo leaves no process, no schema and no file.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	relay := buildRelay(t)
	getenv, left := files(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	d := &demo{
		options: options{
			broker: "nats", relay: relay, duration: 2 * time.Second, patience: time.Minute, workers: 2,
			rate: 50,
		},
		url: os.Getenv("TEST_DATABASE_URL"), ledger: ledger.New(),
	}
	out := &interrupter{text: "relay 1 gets SIGTERM", interrupt: interrupt}
	right, err := d.play(ctx, getenv, out)
	if right || err == nil {
		t.Errorf("right is %t, error %v", right, err)
	}
	if len(d.relays) != 2 || len(d.left) > 0 {
		t.Fatalf("%d relays ran, error %v, not cleaned up: %v\n%s", len(d.relays), err, d.left, &out.Buffer)
	}
	for _, r := range d.relays {
		if r.Running() {
			t.Errorf("%s still runs", r.name)
		}
	}
	if found := left(); len(found) > 0 {
		t.Errorf("left behind: %v", found)
	}
	conn, err := pgx.Connect(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var schemas int
	if err := conn.QueryRow(t.Context(), "select count(*) from pg_namespace where nspname = $1",
		d.database.schema).Scan(&schemas); err != nil || schemas != 0 {
		t.Errorf("%d schemas are left: %v", schemas, err)
	}
}

// interrupter keeps what is written and calls interrupt when it sees a given text.
type interrupter struct {
	bytes.Buffer
	text      string
	interrupt func()
}

func (i *interrupter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(i.text)) {
		i.interrupt()
	}
	return i.Buffer.Write(p)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"unknown broker":  {"--broker", "pigeon"},
		"too short":       {"--duration", "10ms"},
		"no rate":         {"--rate", "0"},
		"unknown scene":   {"--scene", "tragedy"},
		"fanout of one":   {"--scene", "fanout", "--broker", "kafka"},
		"all of nothing":  {"--broker", "all"},
		"unknown flag":    {"--colour"},
		"surplus":         {"nats"},
		"not a number":    {"--workers", "many"},
		"nobody at work":  {"--workers", "0"},
		"negative length": {"--duration", "-5s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			if status := run(t.Context(), args, os.Getenv, &out, &errs); status != exitUsage || errs.Len() == 0 {
				t.Errorf("status %d, %q", status, errs.String())
			}
		})
	}
	t.Run("no database", func(t *testing.T) {
		t.Parallel()
		var out, errs bytes.Buffer
		none := func(string) string { return "" }
		if status := run(t.Context(), []string{"--relay", "/bin/true"}, none, &out, &errs); status != exitFailed ||
			!strings.Contains(errs.String(), "TEST_DATABASE_URL") {
			t.Errorf("status %d, %q", status, errs.String())
		}
	})
	t.Run("no binary", func(t *testing.T) {
		t.Parallel()
		var out, errs bytes.Buffer
		if status := run(t.Context(), []string{"--relay", "/none"}, os.Getenv, &out, &errs); status != exitFailed ||
			!strings.Contains(errs.String(), "make build") {
			t.Errorf("status %d, %q", status, errs.String())
		}
	})
}
