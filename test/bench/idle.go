package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// idleStudy watches an owner and a standby that have nothing to do, with the doorbell's trigger. The reference for the
// owner is a process that queries every 50 ms and does nothing else, as an owner without the trigger has to. It shows
// what this machine, Go and its client library need for that.
func idleStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachBroker(func(b broker) error { return l.idle(ctx, b, r) })
}

func (l *lab) idle(ctx context.Context, b broker, r *report) (err error) {
	table, topic, remove, err := l.prepare(ctx, b, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	const active = "OUTBOX_SHARDS=1" // one replica owns everything, the other nothing
	working, err := startProxy(ctx, table.url, 0)
	if err != nil {
		return err
	}
	defer working.close()
	owner, err := l.startRelay(ctx, working.url, b.url, active)
	if err != nil {
		return err
	}
	defer owner.Kill()
	if _, err := table.fillAndDrain(ctx, seed{topic: topic, rows: 1000, keys: l.keys}); err != nil {
		return err
	}
	waiting, err := startProxy(ctx, table.url, 0)
	if err != nil {
		return err
	}
	defer waiting.close()
	standby, err := l.startRelay(ctx, waiting.url, b.url, active)
	if err != nil {
		return err
	}
	defer standby.Kill()
	poller, err := startPoller(ctx)
	if err != nil {
		return err
	}
	defer poller.Kill()
	const settles, watched = 15 * time.Second, 60 * time.Second // unused connections have been closed by then
	if err := pause(ctx, settles); err != nil {
		return err
	}
	used := func() [3]time.Duration {
		return [...]time.Duration{processorTime(owner.PID()), processorTime(standby.PID()), processorTime(poller.PID())}
	}
	before := used()
	working.begin()
	waiting.begin()
	if err := pause(ctx, watched); err != nil {
		return err
	}
	var share [3]float64 // percent of a core
	for i, after := range used() {
		share[i] = 100 * (after - before[i]).Seconds() / watched.Seconds()
	}
	for _, statement := range slices.Concat(working.written(), waiting.written()) {
		fmt.Println("written:", statement)
	}
	perSecond := func(p *proxy) float64 { return float64(p.statements.Load()) / watched.Seconds() }
	r.judgeBeside(b.name, "owner: % of a core, beside a process that asks every 50 ms", "%.2f", share[0], share[2],
		atMost(0.4))
	r.judge(b.name, "owner: writes in a minute, the listener's self-check included", "%.0f",
		float64(len(working.written())), atMost(1))
	r.judge(b.name, "owner: statements/s", "%.1f", perSecond(working), atMost(3))
	r.state(b.name, "standby: % of a core", "%.2f", share[1])
	r.judge(b.name, "standby: connections", "%.0f", float64(waiting.open.Load()), atMost(1))
	r.judge(b.name, "standby: statements/s", "%.1f", perSecond(waiting), atMost(3))
	r.judge(b.name, "standby: writes in a minute", "%.0f", float64(len(waiting.written())), atMost(0))
	return errors.Join(owner.stop(), standby.stop(), poller.stop())
}
