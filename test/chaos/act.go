package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/test/chaos/history"
	"github.com/outbox-relay/outbox-relay/test/chaos/scene"
	"github.com/outbox-relay/outbox-relay/test/chaos/writer"
)

// act writes rows while the faults happen, repairs everything, and waits until all rows are settled.
func (g *game) act(ctx context.Context) error {
	watching, unwatch := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer unwatch()
	watchers.Go(func() { g.sessions.watch(watching, g.site.servers.Database, g.schema+"-relay-") })
	watchers.Go(func() { g.broker.Accompany(watching) })

	g.began = time.Now()
	g.say(" ", "seed %d, %s, %v, %d replicas, %s, doorbell %t", g.seed, g.options.broker, g.duration, g.plan.Replicas,
		g.plan.Settings,
		g.plan.Settings.Doorbell)
	for i := range g.plan.Replicas {
		if err := g.replicas[i].Start(ctx); err != nil {
			return err
		}
	}
	if err := g.disturb(ctx); err != nil {
		return err
	}
	if err := g.heal(ctx); err != nil {
		return err
	}
	if err := g.await(ctx); err != nil {
		return err
	}
	// A relay that has stopped publishes nothing more.
	for _, r := range g.replicas {
		r.Stop(ctx)
	}
	return ctx.Err()
}

// disturb carries out the plan while the writers write, and returns when both have ended.
func (g *game) disturb(ctx context.Context) error {
	writing, cancel := context.WithDeadline(ctx, g.began.Add(g.duration))
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { g.writers.Run(writing) })
	failed := make(chan error, len(g.plan.Faults)+1)
	at := func(when time.Duration, do func() error) {
		group.Go(func() {
			select {
			case <-ctx.Done():
			case <-time.After(time.Until(g.began.Add(when))):
				if err := do(); err != nil {
					failed <- err
				}
			}
		})
	}
	at(g.plan.Topic, func() error {
		g.say("+", "topics are made that were missing at the first destination")
		return g.create(ctx, g.scene.Destinations[:1], g.scene.Absent)
	})
	for i, f := range g.plan.Faults {
		at(f.At, func() error { return g.fault(ctx, writing, uint64(i), f) })
	}
	group.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return ctx.Err()
	}
}

// heal repairs everything that a fault may have left, and starts the replicas that should run.
func (g *game) heal(ctx context.Context) error {
	g.site.restore()
	if g.site.servers.Ours() {
		for _, database := range []bool{true, false} {
			if !database && g.site.servers.Cluster != nil {
				continue // a fault of its nodes ends when all of them are back
			}
			if err := g.site.servers.Recover(ctx, database); err != nil {
				return err
			}
		}
	}
	// Topics that are missing at destinations other than the first are created only here, and RabbitMQ may have
	// forgotten the queues that were declared last.
	if err := g.create(ctx, g.scene.Destinations, slices.Concat(g.scene.Topics, g.scene.Absent)); err != nil {
		return err
	}
	if err := g.healCluster(ctx); err != nil {
		return err
	}
	for to := range g.pauses {
		if err := g.pauseFile(to, false); err != nil {
			return err
		}
	}
	for i := range g.wanted {
		if err := g.replicas[i].Start(ctx); err != nil {
			return err
		}
	}
	g.say(" ", "everything has healed; the writers have stopped")
	return nil
}

// await waits until nothing is pending, or nothing has been settled for the time of patience.
func (g *game) await(ctx context.Context) error {
	healed := time.Now()
	last, since := -1, healed
	for ctx.Err() == nil {
		pending, err := g.writers.Pending(ctx, g.scene.Pending())
		if err == nil && pending == 0 {
			g.say(" ", "nothing is pending, %v after everything had "+
				"healed", time.Since(healed).Round(10*time.Millisecond))
			return nil
		}
		if err == nil && pending != last {
			last, since = pending, time.Now()
		}
		if time.Since(since) > g.patience {
			g.say("!", "%d rows are pending and nothing moves", last)
			for i := range g.wanted {
				_, text := g.replicas[i].Ready(ctx)
				g.say("!", "%s says:\n%s", g.replicas[i].Name, text)
			}
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return ctx.Err()
}

// judge reads what the broker and the table hold, and compares it with what was written.
func (g *game) judge(ctx context.Context) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, cleanTime+g.duration)
	defer cancel()
	run := &history.Run{Faults: g.faults, Exits: g.exits, Deletes: g.plan.Settings.Delete, Grace: grace}
	var err error
	if run.Deliveries, err = g.broker.Read(ctx); err != nil {
		return result{}, err
	}
	if run.Rows, err = g.writers.Rows(ctx); err != nil {
		return result{}, err
	}
	for i := range g.scene.Destinations {
		d, err := g.destination(ctx, &g.scene.Destinations[i])
		if err != nil {
			return result{}, err
		}
		run.Destinations = append(run.Destinations, d)
	}
	g.sessions.mu.Lock()
	defer g.sessions.mu.Unlock()
	run.Held = g.sessions.held
	if g.sessions.looks == 0 {
		return result{}, fmt.Errorf("the relays' sessions were never seen")
	}
	return result{seed: g.seed, run: run, violations: run.Judge(), longest: g.sessions.longest}, nil
}

// destination returns what is known about one destination.
func (g *game) destination(ctx context.Context, d *scene.Destination) (history.Destination, error) {
	known := history.Destination{
		Name: d.Name, Takes: d.Takes, Topic: d.Publishes, FailedOf: d.FailedOf, RelayedOf: d.RelayedOf,
		Topics:      d.Topics(slices.Concat(g.scene.Topics, g.scene.Absent)),
		MaxInFlight: g.scene.Share(g.plan.Settings.MaxInFlight),
	}
	if d.FailedOf != "" { // the dead letter does not contain the cause of the row's failure
		for _, b := range bad(g.options.broker) {
			if b.Size == 0 {
				known.Spared = append(known.Spared, b.Name)
			}
		}
	}
	var err error
	if known.Table, err = writer.Collect(ctx, g.writers, d.Final(), pgx.RowToStructByPos[history.Final]); err != nil {
		return known, err
	}
	known.Failures, err = writer.Collect(ctx, g.writers, d.Failures(), pgx.RowToStructByPos[history.Failure])
	return known, err
}

// terminate ends database sessions by their application_name.
func (g *game) terminate(ctx context.Context, application string) error {
	conn, err := pgx.Connect(ctx, g.site.servers.Database)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is open on it
	_, err = conn.Exec(ctx,
		"select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and pid <> "+
			"pg_backend_pid()",
		application)
	return err
}
