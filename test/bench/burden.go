package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// burdens are the states of a table in which a relay is killed.
var burdens = []trouble{
	{
		name: "100,000 rows failed, block", numbers: []int{100_000}, settings: []string{"OUTBOX_ON_FAILED=block"},
		begins: failedKeys,
	},
	{name: "120,000 keys wait for a topic", numbers: []int{120_000}, begins: heldKeys, shows: "blocked_keys"},
	{name: "a million rows pending", numbers: []int{1_000_000}, begins: backlogged},
}

// burdenStudy kills a relay whose table is in one of the states of burdens, the only one and one of two, and starts
// another. It measures how long the keys without trouble had to wait.
func burdenStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachBroker(func(b broker) error {
		for _, t := range burdens {
			for i, name := range []string{t.name + ", restart", t.name + ", takeover"} {
				if !strings.Contains(name, l.only) {
					continue
				}
				var waits []float64
				for round := range l.rounds {
					wait, err := l.underBurden(ctx, b, t, i+1)
					if err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
					fmt.Printf("%s, %s, round %d: a key waited %.0f ms at most\n", b.name, name, round+1, wait)
					waits = append(waits, wait)
				}
				r.judge(b.name, name+": longest wait of a key, ms, worst round", "%.0f", slices.Max(waits),
					atMost(2000))
			}
		}
		return nil
	})
}

// underBurden returns the longest time from the kill until a further row of a key without trouble is relayed, in
// milliseconds. The start of the process is part of it.
func (l *lab) underBurden(ctx context.Context, b broker, t trouble, replicas int) (longest float64, err error) {
	table, topic, remove, err := l.prepare(ctx, b, true)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	s := site{outbox: table, broker: b, topic: topic, number: t.numbers[0]}
	if err := t.begins(ctx, &s); err != nil {
		return 0, fmt.Errorf("begin the burden: %w", err)
	}
	if err := table.vacuum(ctx); err != nil {
		return 0, err
	}
	running, err := l.startReplicas(ctx, replicas, table.url, b.url, t.settings...)
	defer func() {
		for _, relay := range running {
			relay.Kill()
		}
	}()
	if err != nil {
		return 0, err
	}
	if replicas == 1 { // of several, each knows its share
		if err := s.awaitTrouble(ctx, running[0], t); err != nil {
			return 0, err
		}
	}
	writing, stop := context.WithCancel(ctx)
	written := make(chan error, 1)
	go func() {
		_, err := traffic{rows: 100_000, perSecond: 1000, writers: 4, keys: burdenKeys}.run(writing, table.url, topic)
		written <- err
	}()
	defer func() {
		stop()
		if e := <-written; writing.Err() == nil {
			err = errors.Join(err, e)
		}
	}()
	if _, err := s.flows(ctx, time.Time{}); err != nil {
		return 0, err
	}
	killed := time.Now()
	running[0].Kill()
	replacement, err := l.startRelay(ctx, table.url, b.url, t.settings...)
	if err != nil {
		return 0, err
	}
	running[0] = replacement
	again, err := s.flows(ctx, killed)
	return float64(again.Sub(killed).Milliseconds()), err
}

// burdenKeys is the number of keys without trouble. Each gets ten rows a second.
const burdenKeys = 100

// flows waits until a row of each key without trouble has been relayed after the given time, and returns when that was
// so.
func (s *site) flows(ctx context.Context, after time.Time) (since time.Time, err error) {
	limited, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	err = testkit.Until(limited, time.Second, func() (bool, error) {
		var keys int
		err := s.conn.QueryRow(limited, `select count(*), coalesce(max(relayed), now()) from (
			select min(relayed_at) from outbox_messages where relayed_at > $1 and key like 'order-%' group by key) k
			(relayed)`, after).
			Scan(&keys, &since)
		return keys == burdenKeys, err
	})
	if err != nil {
		return since, fmt.Errorf("keys without trouble are not relayed: %w", err)
	}
	return since, nil
}

// backlogged writes small rows of the keys that the study watches.
func backlogged(ctx context.Context, s *site) error {
	_, err := s.conn.Exec(ctx, `insert into outbox_messages (topic, key, payload)
		select $2, 'order-' || i % $3::int, jsonb_build_object('n', (900000000 + i)::text)
		from generate_series(1, $1::int) i`,
		s.number, s.topic, burdenKeys)
	return err
}
