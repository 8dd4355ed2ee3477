package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/outbox-relay/outbox-relay/test/chaos/plan"
)

// pauseDestination pauses a destination at all replicas for a while.
func (g *game) pauseDestination(ctx context.Context, f plan.Fault) (err error) {
	g.alone(&g.pauses[f.To], func() {
		g.note(f, 0, "", func() {
			if err = g.pauseFile(f.To, true); err == nil {
				pause(ctx, f.Lasts)
				err = g.pauseFile(f.To, false)
			}
		})
	})
	return err
}

// pauseFile writes the file that pauses a destination. The relays may read it at any time, and find either the old or
// the new state.
func (g *game) pauseFile(to int, on bool) error {
	path := g.scene.Destinations[to].PauseFile(g.dir)
	if err := os.WriteFile(path+".new", []byte(strconv.FormatBool(on)), 0o600); err != nil {
		return fmt.Errorf("write the file that pauses a destination: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("put the file that pauses a destination into its place: %w", err)
	}
	return nil
}

// retryTime is how long the operator keeps trying.
const retryTime = 10 * time.Second

// retry makes the rows that have failed at a destination be tried again, as far as the database answers. No broker
// takes them this time either.
func (g *game) retry(ctx context.Context, f plan.Fault) {
	d := &g.scene.Destinations[f.To]
	if !d.Origin() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, retryTime)
	defer cancel()
	g.note(f, 0, "", func() {
		command := exec.CommandContext(ctx, g.relay, "failed", "retry", "--yes", "--destination", d.Name)
		command.Env = g.environment()
		if out, err := command.CombinedOutput(); err != nil {
			g.say("!", "failed retry: %v: %.300s", err, out)
		}
	})
}
