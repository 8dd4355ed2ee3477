package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// program is a running process: the relay, or the yardstick, which has no HTTP server.
type program struct {
	*testkit.Relay
	ready time.Duration // time until /readyz reported readiness
}

// patience bounds every wait for something that should happen soon.
const patience = 30 * time.Second

// startRelay starts the relay with its defaults except for the given settings, and waits until it is ready.
func (l *lab) startRelay(ctx context.Context, database, broker string, settings ...string) (*program, error) {
	settings = append([]string{"OUTBOX_DATABASE_URL=" + database, "OUTBOX_PUBLISH_URL=" + broker}, settings...)
	relay, err := testkit.StartRelay(ctx, l.relay, settings, "")
	if err != nil {
		return nil, err
	}
	p := &program{Relay: relay}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if p.ready, err = relay.AwaitReady(limited); err != nil {
		return nil, p.fail(err)
	}
	return p, nil
}

func start(cmd *exec.Cmd) (*program, error) {
	process, err := testkit.Start(cmd, "")
	if err != nil {
		return nil, err
	}
	return &program{Relay: &testkit.Relay{Process: process}}, nil
}

// stop asks the program to end and waits for it.
func (p *program) stop() error {
	_ = p.Stop(context.Background()) // cannot fail without a deadline
	return p.wait()
}

// wait waits for a program that ends by itself.
func (p *program) wait() error {
	if err := p.Err(); err != nil {
		return p.fail(err)
	}
	return nil
}

// fail ends the program and adds the end of its log to an error.
func (p *program) fail(err error) error {
	p.Kill()
	lines := strings.Split(strings.TrimSpace(p.Log()), "\n")
	return fmt.Errorf("%w; it said:\n%s", err, strings.Join(lines[max(0, len(lines)-10):], "\n"))
}
