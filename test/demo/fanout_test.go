package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each destination has its own verdict, with NATS alone and with all brokers.
func TestFanout(t *testing.T) {
	t.Parallel()
	relay := buildRelay(t)
	for _, brokers := range []string{"nats", allBrokers} {
		t.Run(brokers, func(t *testing.T) {
			t.Parallel()
			getenv, left := files(t)
			var out, errs bytes.Buffer
			status := run(t.Context(), []string{
				"--scene", "fanout", "--broker", brokers, "--relay", relay, "--duration", "3s", "--rate", "50",
				"--large", "20",
			}, getenv, &out, &errs)
			if status != exitDone || strings.Count(out.String(), "\nRIGHT") != 5 || errs.Len() > 0 ||
				!strings.Contains(out.String(), "goes away") {
				t.Errorf("status %d\n%s%s", status, &out, &errs)
			}
			if found := left(); len(found) > 0 {
				t.Errorf("left behind: %v", found)
			}
		})
	}
}

// Dead letters that go nowhere are detected, and are not counted against any other destination.
func TestFanoutFindsLostDeadLetters(t *testing.T) {
	t.Parallel()
	real := buildRelay(t)
	relay := filepath.Join(t.TempDir(), "liar")
	script := "#!/bin/sh\n[ \"$1\" != run ] || export OUTBOX_DESTINATION_DEAD_PUBLISH_URL=stdout:\nexec '" + real +
		"' \"$@\"\n"
	if err := os.WriteFile(relay, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	getenv, _ := files(t)
	var out, errs bytes.Buffer
	status := run(t.Context(),
		[]string{"--scene", "fanout", "--relay", relay, "--duration", "1s", "--patience", "2s", "--large", "20"},
		getenv, &out, &errs)
	if status != exitFailed || strings.Count(out.String(), "\nRIGHT") != 3 ||
		!strings.Contains(out.String(), "\nWRONG  dead letters of orders") || errs.Len() > 0 {
		t.Errorf("status %d\n%s%s", status, &out, &errs)
	}
}
