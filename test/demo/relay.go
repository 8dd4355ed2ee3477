package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

const (
	startTime = 15 * time.Second // time in which a relay must become ready
	stopTime  = 30 * time.Second // more than OUTBOX_SHUTDOWN_TIMEOUT
)

// A relay is one process of the real binary. Its fields are set before it is started.
type relay struct {
	*testkit.Relay // set once it is started
	name           string
	binary         string
	settings       []string
	log            string // path of its log

	leaving atomic.Bool // the relay was asked to stop
	seen    atomic.Pointer[metrics]
}

// list returns settings as NAME=value.
func list(settings map[string]string) (all []string) {
	for name, value := range settings {
		all = append(all, name+"="+value)
	}
	return all
}

// printSchema runs `outbox-relay schema`.
func printSchema(ctx context.Context, binary string, settings map[string]string, flags ...string) (string, error) {
	command := testkit.Command(ctx, binary, list(settings), append([]string{"schema"}, flags...)...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no %s: run `make build`", binary)
	}
	if err != nil {
		return "", fmt.Errorf("print schema: %w", err)
	}
	return string(out), nil
}

// start runs the process. If start returns no error, the caller must close the relay.
func (r *relay) start(ctx context.Context) (err error) {
	if r.Relay, err = testkit.StartRelay(ctx, r.binary, r.settings, r.log); err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}

// ready waits until /readyz answers 200.
func (r *relay) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if _, err := r.AwaitReady(ctx); err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}

// watch returns nil when the process has ended as requested, or ctx ends, and an error when the process ended by
// itself.
func (r *relay) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.Exited():
	}
	if r.leaving.Load() {
		return nil
	}
	return r.lost()
}

func (r *relay) lost() error {
	if r.Err() == nil {
		return fmt.Errorf("%s ended by itself", r.name)
	}
	return fmt.Errorf("%s ended: %w", r.name, r.Err())
}

// stop sends SIGTERM and returns when the process has ended, which it must do with status 0. Metrics after that signal
// are not seen.
func (r *relay) stop(ctx context.Context) error {
	r.leaving.Store(true)
	r.scrape(ctx)
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	if r.Err() != nil {
		return fmt.Errorf("%s did not stop cleanly: %w", r.name, r.Err())
	}
	return nil
}

// close ends the process if it still runs, first with SIGTERM.
func (r *relay) close(ctx context.Context) {
	if r.stop(ctx) == nil {
		return
	}
	r.Kill()
}
