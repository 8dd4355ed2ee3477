package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// all stands for every study, or every broker.
const all = "all"

// options are the flags.
type options struct {
	broker, relay, only     string
	rows, rounds, keys, hot int
	distance, duration      time.Duration
}

// lab is the programs and the servers that studies work with.
type lab struct {
	options
	dir         string // folder for scratch files, removed at the end
	database    string // URL
	databasePID int    // process of the server; 0 when it cannot be seen
}

func newLab(o options) (*lab, error) {
	relay, err := filepath.Abs(o.relay)
	if err != nil {
		return nil, err
	}
	o.relay = relay
	l := &lab{options: o}
	if _, err := os.Stat(relay); err != nil {
		return nil, fmt.Errorf("no relay to measure, use `make bench`: %w", err)
	}
	if l.database, err = endpoint("TEST_DATABASE_URL"); err != nil {
		return nil, err
	}
	port, err := portOf(l.database)
	if err != nil {
		return nil, err
	}
	l.databasePID = listenerOn(port)
	l.dir, err = os.MkdirTemp("", "outbox-relay-bench-")
	return l, err
}

func (l *lab) close() { _ = os.RemoveAll(l.dir) }

// yardstick builds the yardstick and returns its path.
func (l *lab) yardstick(ctx context.Context) (string, error) {
	path := filepath.Join(l.dir, "yardstick")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./yardstick")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build yardstick: %w", err)
	}
	return path, nil
}

// eachBroker calls do with each broker that was selected.
func (l *lab) eachBroker(do func(broker) error) error {
	return l.eachKind(func(k kind) error {
		address, err := endpoint(k.variable)
		if err != nil {
			return err
		}
		return on(k.name, address, do)
	})
}

// eachKind calls do with each kind of broker that was selected.
func (l *lab) eachKind(do func(kind) error) error {
	found := false
	for _, k := range kinds {
		if l.broker != all && l.broker != k.name {
			continue
		}
		found = true
		if err := do(k); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	if !found {
		return fmt.Errorf("unknown broker %q", l.broker)
	}
	return nil
}

// prepare makes a topic and an outbox for one run of a study; remove removes both.
func (l *lab) prepare(ctx context.Context, b broker, doorbell bool) (
	table *outbox, topic string, remove func() error, err error,
) {
	topic, removeTopic, err := b.topic(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	if table, err = l.newOutbox(ctx, doorbell); err != nil {
		return nil, "", nil, errors.Join(err, removeTopic())
	}
	return table, topic, func() error { return errors.Join(table.close(ctx), removeTopic()) }, nil
}

func endpoint(variable string) (string, error) {
	address := os.Getenv(variable)
	if address == "" {
		return "", fmt.Errorf("%s is not set: run `make bench`, or eval \"$(dev/services.sh env)\" first", variable)
	}
	return address, nil
}

// withoutSettings removes the relay's settings from the environment of the shell that runs the benchmark.
func withoutSettings(environment []string) []string {
	var kept []string
	for _, pair := range environment {
		if !strings.HasPrefix(pair, "OUTBOX_") {
			kept = append(kept, pair)
		}
	}
	return kept
}
