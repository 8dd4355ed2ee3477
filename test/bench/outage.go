package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// outage is how long the broker is away.
const outage = 30 * time.Second

// recovery describes the time after an outage.
type recovery struct {
	before   time.Duration // time that as many rows took without an outage
	flowing  time.Duration // time from the first accepted message of another client until rows were marked
	relayed  time.Duration // time from then on until no row was pending
	attempts int           // number of attempts spent
}

// outageStudy stops a separate broker for 30 s under a relay, while rows are written. A client that opens new
// connections continuously shows when the broker accepts messages again.
func outageStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachKind(func(k kind) (err error) {
		dir, err := os.MkdirTemp(l.dir, k.name+"-")
		if err != nil {
			return err
		}
		set := &services.Set{Checkout: "../..", Dir: dir}
		defer func() {
			_, wiped := set.Run(context.WithoutCancel(ctx), "wipe")
			err = errors.Join(err, wiped)
		}()
		if _, err := set.Run(ctx, "up", k.name); err != nil {
			return err
		}
		address, err := set.Address(ctx, k.variable)
		if err != nil {
			return err
		}
		var flowing, rates, usual []float64
		spent := 0
		for round := range l.rounds {
			o, err := l.outage(ctx, set, k.name, address)
			if err != nil {
				return err
			}
			fmt.Printf("%s, round %d: rows flowed %v after the broker took a message, all within a further %v\n",
				k.name, round+1, o.flowing.Round(time.Millisecond), o.relayed.Round(time.Millisecond))
			flowing = append(flowing, float64(o.flowing.Milliseconds()))
			rates = append(rates, float64(l.rows)/o.relayed.Seconds())
			usual = append(usual, float64(l.rows)/o.before.Seconds())
			spent += o.attempts
		}
		r.judge(k.name, "rows flow after the broker takes a message, ms, worst round", "%.0f", slices.Max(flowing),
			atMost(1000))
		r.contrast(k.name, "rows/s of the backlog then, beside the same before", "%.0f", rates, usual)
		r.judge(k.name, "rows that spent an attempt", "%.0f", float64(spent), atMost(0))
		return nil
	})
}

func (l *lab) outage(ctx context.Context, set *services.Set, name, address string) (o recovery, err error) {
	var topic string
	err = on(name, address, func(b broker) (err error) {
		topic, _, err = b.topic(ctx) // the topic is removed with the broker
		return err
	})
	if err != nil {
		return o, err
	}
	table, err := l.newOutbox(ctx, false)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, table.close(ctx)) }()
	relay, err := l.startRelay(ctx, table.url, address)
	if err != nil {
		return o, err
	}
	defer relay.Kill()
	rows := seed{topic: topic, rows: l.rows, keys: l.keys}
	for range 2 { // the first round is the warm-up
		if o.before, err = table.fillAndDrain(ctx, rows); err != nil {
			return o, err
		}
	}
	if _, err := set.Run(ctx, "stop", name); err != nil {
		return o, err
	}
	if err := table.fill(ctx, rows); err != nil {
		return o, err
	}
	head, err := table.head(ctx)
	if err != nil {
		return o, err
	}
	select {
	case <-time.After(outage):
	case <-ctx.Done():
		return o, ctx.Err()
	}
	started := make(chan error, 1)
	go func() {
		_, err := set.Run(ctx, "up", name)
		started <- err
	}()
	taken := make(chan time.Time, 1)
	go func() { taken <- whenTaken(ctx, address, topic) }()
	err = testkit.Until(ctx, 5*time.Millisecond, func() (bool, error) {
		now, err := table.head(ctx)
		return now != head, err
	})
	flows := time.Now()
	if err == nil {
		err = testkit.Until(ctx, 20*time.Millisecond, func() (bool, error) { return table.empty(ctx) })
	}
	o.relayed, o.flowing = time.Since(flows), flows.Sub(<-taken)
	if err := errors.Join(err, <-started); err != nil {
		return o, err
	}
	err = table.conn.QueryRow(ctx,
		"select count(*) from outbox_messages where attempt <> 1 or last_error is not null").Scan(&o.attempts)
	return o, errors.Join(err, relay.stop())
}

// whenTaken returns the time at which the broker first accepted a message for the topic from a client that has just
// connected. A topic that holds many messages may come back later than others.
func whenTaken(ctx context.Context, address, topic string) time.Time {
	try := func() bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		b, err := testkit.Open(address)
		if err != nil {
			return false
		}
		defer b.Close()
		return b.Publish(ctx, topic, testkit.Message{}) == nil
	}
	for !try() && ctx.Err() == nil {
		<-time.After(10 * time.Millisecond)
	}
	return time.Now()
}
