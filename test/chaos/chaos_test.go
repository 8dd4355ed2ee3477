package main

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/test/chaos/broker"
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

// Every promise is kept on each broker for a short time, with the schedule of one seed, or of CHAOS_SEED. The long form
// is `make chaos`.
func TestShort(t *testing.T) {
	t.Parallel()
	relay := buildRelay(t)
	seed := cmp.Or(os.Getenv("CHAOS_SEED"), "3")
	for _, kind := range broker.Kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			status := run(t.Context(), []string{"--broker", kind, "--relay", relay, "--seed", seed, "--duration", "15s"}, &out,
				&errs)
			if status != exitDone || errs.Len() > 0 {
				t.Errorf("status %d\n%s\n%s", status, &errs, &out)
			}
		})
	}
}

// The promises are kept with several destinations, each with faults of its own.
func TestShortWithDestinations(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{
		"--scene", "destinations", "--relay", buildRelay(t), "--seed", cmp.Or(os.Getenv("CHAOS_SEED"), "3"), "--duration",
		"15s",
	}, &out, &errs)
	if status != exitDone || errs.Len() > 0 {
		t.Errorf("status %d\n%s\n%s", status, &errs, &out)
	}
}

// A relay that marks rows and publishes them elsewhere is detected, and the command that repeats the run is printed.
func TestALiarIsFoundOut(t *testing.T) {
	t.Parallel()
	liar := filepath.Join(t.TempDir(), "liar")
	script := "#!/bin/sh\n[ \"$1\" != run ] || export OUTBOX_PUBLISH_URL=stdout:\nexec '" + buildRelay(t) + "' \"$@\"\n"
	if err := os.WriteFile(liar, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := run(t.Context(),
		[]string{"--broker", "nats", "--external", "--relay", liar, "--seed", "7", "--duration", "5s", "--clean"}, &out,
		&errs)
	if status != exitFailed || errs.Len() > 0 {
		t.Errorf("status %d\n%s", status, &errs)
	}
	for _, want := range []string{
		"BROKEN: a row that is marked", "is marked and was never delivered",
		"again: cd test/chaos && go run . --broker nats --seed 7",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// A relay that does so at one of several destinations is detected there, and nowhere else.
func TestALiarAtOneDestinationIsFoundOut(t *testing.T) {
	t.Parallel()
	liar := filepath.Join(t.TempDir(), "liar")
	script := "#!/bin/sh\n[ \"$1\" != run ] || export OUTBOX_DESTINATION_AUDIT_PUBLISH_URL=stdout:\nexec '" +
		buildRelay(t) + "' \"$@\"\n"
	if err := os.WriteFile(liar, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{
		"--scene", "destinations", "--external", "--relay", liar, "--seed", "7", "--duration", "5s", "--clean",
	}, &out, &errs)
	if status != exitFailed || errs.Len() > 0 {
		t.Errorf("status %d\n%s", status, &errs)
	}
	for _, want := range []string{
		"BROKEN at audit: a row that is marked", "is marked and was never delivered",
		"again: cd test/chaos && go run . --broker nats --seed 7 --duration 5s --scene destinations",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	for _, name := range []string{"orders", "rest", "dead", "buried", "notice"} {
		if strings.Contains(out.String(), "BROKEN at "+name) {
			t.Errorf("broken at %s, too:\n%s", name, &out)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"unknown broker":    {"--broker", "pigeon"},
		"unknown scene":     {"--scene", "opera"},
		"too short":         {"--duration", "1s"},
		"too many replicas": {"--replicas", "5"},
		"no seeds":          {"--seeds", "0"},
		"unknown flag":      {"--colour"},
		"given cluster":     {"--cluster", "--external"},
		"surplus":           {"nats"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			if status := run(t.Context(), args, &out, &errs); status != exitUsage || errs.Len() == 0 {
				t.Errorf("status %d, %q", status, errs.String())
			}
		})
	}
}
