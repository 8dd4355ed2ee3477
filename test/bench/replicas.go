package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// replicasStudy lets one, two and four replicas drain the same rows in turns. They divide the shards while the table is
// empty, and then all rows are committed at once. The order of each key is checked at the broker.
func replicasStudy(ctx context.Context, l *lab, r *report) error {
	counts := []int{1, 2, 4}
	return l.eachBroker(func(b broker) error {
		rates, disordered := map[int][]float64{}, 0
		for round := range l.rounds {
			for _, replicas := range counts {
				rate, wrong, err := l.share(ctx, b, replicas)
				if err != nil {
					return fmt.Errorf("%d replicas: %w", replicas, err)
				}
				rates[replicas] = append(rates[replicas], rate)
				disordered += wrong
				fmt.Printf("%s, %d replicas, round %d: %.0f rows/s\n", b.name, replicas, round+1, rate)
			}
		}
		for _, replicas := range counts[1:] {
			r.compare(b.name, fmt.Sprintf("rows/s of %d replicas, beside one", replicas), "%.0f", rates[replicas],
				rates[1],
				atLeast(1))
		}
		r.judge(b.name, "rows out of order or twice", "%.0f", float64(disordered), atMost(0))
		return nil
	})
}

func (l *lab) share(ctx context.Context, b broker, replicas int) (rate float64, wrong int, err error) {
	table, topic, remove, err := l.prepare(ctx, b, false)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	running, err := l.startReplicas(ctx, replicas, table.url, b.url)
	defer func() {
		for _, relay := range running {
			relay.Kill()
		}
	}()
	if err != nil {
		return 0, 0, err
	}
	took, err := table.fillAndDrain(ctx, seed{topic: topic, rows: l.rows, keys: l.keys})
	if err != nil {
		return 0, 0, err
	}
	rate = float64(l.rows) / took.Seconds()
	if err := table.checkRelayed(ctx, b, topic, l.rows); err != nil {
		return 0, 0, err
	}
	arrived, end := consume(ctx, b, topic, func(row int) int { return row % l.keys })
	defer func() { err = errors.Join(err, end()) }()
	if err := arrived.await(ctx, l.rows); err != nil {
		return 0, 0, err
	}
	for _, relay := range running {
		if err := relay.stop(); err != nil {
			return 0, 0, err
		}
	}
	return rate, arrived.wrong(), nil
}

// startReplicas starts relays on one table and waits until each holds its share of the shards.
func (l *lab) startReplicas(ctx context.Context, replicas int, database, broker string, settings ...string) (
	running []*program, err error,
) {
	for range replicas {
		relay, err := l.startRelay(ctx, database, broker, settings...)
		if err != nil {
			return running, err
		}
		running = append(running, relay)
	}
	return running, awaitShares(ctx, running)
}

// awaitShares waits until every shard is owned and no replica has more than its fair share.
func awaitShares(ctx context.Context, running []*program) error {
	const shards = 16
	fair := float64((shards + len(running) - 1) / len(running))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return testkit.Until(ctx, 20*time.Millisecond, func() (bool, error) {
		total := 0.0
		for _, relay := range running {
			m, err := relay.Metrics(ctx)
			if err != nil {
				return false, relay.fail(err)
			}
			owned := m["shards_owned"]
			if total += owned; owned > fair {
				return false, nil
			}
		}
		return total == shards, nil
	})
}
