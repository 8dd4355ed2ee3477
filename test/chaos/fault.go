package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/test/chaos/history"
	"github.com/outbox-relay/outbox-relay/test/chaos/link"
	"github.com/outbox-relay/outbox-relay/test/chaos/plan"
	"github.com/outbox-relay/outbox-relay/test/chaos/writer"
)

// fault carries out one event of the plan and returns when it is repaired. It leaves alone what another fault is
// working on. The context writing ends when the writers do.
func (g *game) fault(ctx, writing context.Context, number uint64, f plan.Fault) error {
	slot := f.Pick % g.running()
	switch f.Kind {
	case plan.Burst:
		g.note(f, 0, "", func() { g.writers.Burst(writing, number, f.Count) })
	case plan.LongOpen:
		g.note(f, 0, "", func() { g.writers.Linger(writing, number, f.Lasts) })
	case plan.CutWriters:
		g.note(f, 0, "", func() { _ = g.terminate(ctx, writer.Name) }) // an unavailable database has ended them already
	case plan.Scale:
		return g.scale(ctx, f)
	case plan.Stop:
		return g.process(ctx, f, slot, 0, func() { g.replicas[slot].Stop(ctx) })
	case plan.Kill:
		return g.process(ctx, f, slot, 1, g.replicas[slot].Kill)
	case plan.Freeze:
		g.alone(&g.slots[slot], func() {
			g.note(f, 1, g.replicas[slot].Name, func() {
				g.replicas[slot].Freeze()
				pause(ctx, f.Lasts)
				g.replicas[slot].Thaw()
			})
		})
	case plan.Terminate:
		// a database that is away has ended them
		g.note(f, 1, g.replicas[slot].Name, func() { _ = g.terminate(ctx, g.application(slot)) })
	case plan.CutData, plan.HalfData, plan.MuteData, plan.SlowData:
		g.alone(&g.links[slot], func() { g.disturbLink(ctx, f, g.site.data[slot], slot, 1) })
	case plan.CutBroker, plan.HalfBroker, plan.MuteBroker, plan.SlowBroker:
		affected, to := 1, f.To
		if g.options.broker == "kafka" {
			slot, to, affected = 0, 0, plan.MaxReplicas
		}
		g.alone(&g.brokers[to][slot], func() { g.disturbLink(ctx, f, g.site.broker[to][slot], slot, affected) })
	case plan.Pause:
		return g.pauseDestination(ctx, f)
	case plan.Retry:
		g.retry(ctx, f)
	case plan.CrashData, plan.CrashBroker:
		return g.crash(ctx, f)
	default:
		return g.node(ctx, f)
	}
	return nil
}

// note runs do and records what happened and when. The argument replicas is the number of replicas that may publish
// again because of it.
func (g *game) note(f plan.Fault, replicas int, who string, do func()) {
	name := f.String()
	if to := g.destinationOf(f); to != "" {
		name += " at " + to
	}
	if who != "" {
		name += " (" + who + ")"
	}
	g.say(">", "%s", name)
	began := time.Now()
	do()
	g.mu.Lock()
	g.faults = append(g.faults, history.Fault{
		Name: name, Began: began, Ended: time.Now(), Replicas: replicas, Destination: g.destinationOf(f),
	})
	g.mu.Unlock()
	if time.Since(began) > 50*time.Millisecond {
		g.say("<", "%s", name)
	}
}

// destinationOf returns the name of the only destination that a fault concerns, or "" if it concerns all.
func (g *game) destinationOf(f plan.Fault) string {
	if f.OfDestination() && (g.options.broker != "kafka" || !f.OfLink()) {
		return g.scene.Destinations[f.To].Name
	}
	return ""
}

// alone runs do while it holds the lock, and does nothing if another fault holds it.
func (*game) alone(lock *sync.Mutex, do func()) {
	if lock.TryLock() {
		defer lock.Unlock()
		do()
	}
}

func (g *game) running() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wanted
}

// process ends a replica's process and starts the next one after a while, if the replica should still run.
func (g *game) process(ctx context.Context, f plan.Fault, slot, affected int, end func()) (err error) {
	g.alone(&g.slots[slot], func() {
		g.note(f, affected, g.replicas[slot].Name, func() {
			end()
			pause(ctx, f.Lasts)
		})
		if slot < g.running() {
			err = g.replicas[slot].Start(ctx)
		}
	})
	return err
}

// scale starts or stops replicas until the planned number runs.
func (g *game) scale(ctx context.Context, f plan.Fault) (err error) {
	g.mu.Lock()
	g.wanted = f.Count
	g.mu.Unlock()
	g.note(f, 0, "", func() {
		var group sync.WaitGroup
		for i, r := range g.replicas {
			g.slots[i].Lock() // another fault that works on it ends soon
			if i < g.running() {
				if failed := r.Start(ctx); failed != nil {
					err = failed
				}
				g.slots[i].Unlock()
				continue
			}
			group.Go(func() {
				defer g.slots[i].Unlock()
				r.Stop(ctx)
			})
		}
		group.Wait()
	})
	return err
}

// disturbLink disturbs a link for a while.
func (g *game) disturbLink(ctx context.Context, f plan.Fault, l *link.Link, slot, affected int) {
	who := g.replicas[slot].Name
	if affected > 1 {
		who = "all replicas"
	}
	delay := time.Duration(0)
	switch f.Kind {
	case plan.SlowBroker, plan.SlowData:
		// A batch on one key needs many round trips, and with a long delay takes longer than the publish timeout.
		if delay = 50 * time.Millisecond; g.clean {
			delay, affected = 3*time.Millisecond, 0
		}
		who = fmt.Sprintf("%s, %v each piece", who, delay)
	default: // without a delay
	}
	g.note(f, affected, who, func() {
		defer l.Restore()
		switch f.Kind {
		case plan.CutData, plan.CutBroker:
			l.Cut()
		case plan.HalfData, plan.HalfBroker:
			l.Freeze()
		case plan.MuteData, plan.MuteBroker:
			l.Mute()
		default:
			l.Slow(delay)
			defer l.Slow(0)
		}
		pause(ctx, f.Lasts)
		if f.Kind == plan.MuteData || f.Kind == plan.MuteBroker {
			l.Cut() // the answers are lost
		}
	})
}

// crash kills a server and starts it again.
func (g *game) crash(ctx context.Context, f plan.Fault) (err error) {
	database := f.Kind == plan.CrashData
	lock := &g.servers[0]
	if !database {
		lock = &g.servers[1]
	}
	g.alone(lock, func() {
		g.note(f, plan.MaxReplicas, "", func() {
			if err = g.site.servers.Crash(ctx, database); err == nil {
				pause(ctx, f.Lasts)
				err = g.site.servers.Recover(ctx, database)
			}
		})
	})
	return err
}

// pause waits for a time that the plan gives.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
