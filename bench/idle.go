package main

import (
	"context"
	"errors"
	"time"
)

// idleStudy watches an owner and a standby that have nothing to do.
func idleStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachBroker(func(b namedBroker) error { return l.idle(ctx, b, r) })
}

func (l *lab) idle(ctx context.Context, b namedBroker, r *report) (err error) {
	topic, remove, err := b.topic(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	table, err := l.newOutbox(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, table.close(ctx)) }()
	const active = "OUTBOX_SHARDS=1" // one owns everything, the other nothing
	owner, err := l.startRelay(ctx, table.url, b.url, active)
	if err != nil {
		return err
	}
	defer owner.kill()
	if _, err := table.fillAndDrain(ctx, seed{topic: topic, rows: 1000, keys: l.keys}); err != nil {
		return err
	}
	database, err := startProxy(ctx, table.url, 0)
	if err != nil {
		return err
	}
	defer database.close()
	standby, err := l.startRelay(ctx, database.url, b.url, active)
	if err != nil {
		return err
	}
	defer standby.kill()
	const settles, watched = 15 * time.Second, 60 * time.Second // connections that are not used have been closed by then
	if err := pause(ctx, settles); err != nil {
		return err
	}
	// Nothing here may ask the server meanwhile, and the statements that look at it are read-only.
	log, err := table.log(ctx)
	if err != nil {
		return err
	}
	transactions, err := table.transactions(ctx)
	if err != nil {
		return err
	}
	busy, waiting := processorTime(owner.cmd.Process.Pid), processorTime(standby.cmd.Process.Pid)
	database.statements.Store(0)
	if err := pause(ctx, watched); err != nil {
		return err
	}
	busy, waiting = processorTime(owner.cmd.Process.Pid)-busy, processorTime(standby.cmd.Process.Pid)-waiting
	statements, connections := database.statements.Load(), database.open.Load()
	transactionsEnd, err := table.transactions(ctx)
	if err != nil {
		return err
	}
	logEnd, err := table.log(ctx)
	if err != nil {
		return err
	}
	share := func(used time.Duration) float64 { return 100 * used.Seconds() / watched.Seconds() }
	r.judge(b.name, "idle owner: % of a core", "%.2f", share(busy), atMost(0.5))
	// The owner's listener notifies itself once a minute, which takes a transaction; the standby's too, if it listens.
	r.judge(b.name, "both: transactions that wrote, in a minute", "%.0f", float64(transactionsEnd-transactions), atMost(2))
	r.state(b.name, "both: WAL bytes, in a minute", "%.0f", float64(logEnd-log))
	r.state(b.name, "standby: % of a core", "%.2f", share(waiting))
	r.judge(b.name, "standby: connections", "%.0f", float64(connections), atMost(1))
	r.judge(b.name, "standby: statements/s", "%.1f", float64(statements)/watched.Seconds(), atMost(3))
	return errors.Join(owner.stop(), standby.stop())
}
