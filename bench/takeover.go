package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// takeoverStudy kills one of two replicas under load, again and again, and looks how long rows had to wait.
func takeoverStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachBroker(func(b namedBroker) error {
		var waits []float64
		duplicates, disordered := 0, 0
		for round := range l.rounds {
			s := shift{replicas: 2, rows: l.rows, perSecond: 1000}
			s.disturb = func(ctx context.Context, running []*program, start func() (*program, error)) ([]*program, error) {
				running[round%len(running)].kill()
				replacement, err := start()
				if err != nil {
					return running, err
				}
				running[round%len(running)] = replacement
				return running, nil
			}
			w, err := l.work(ctx, b, s)
			if err != nil {
				return err
			}
			fmt.Printf("%s, round %d: a row waited %.0f ms at most, %d duplicates\n", b.name, round+1, w.longest, w.duplicates)
			waits = append(waits, w.longest)
			duplicates = max(duplicates, w.duplicates)
			disordered += w.disordered
		}
		r.judge(b.name, "longest wait of a row after kill -9, ms, worst round", "%.0f", slices.Max(waits), atMost(3000))
		r.state(b.name, "longest wait of a row after kill -9, ms, median round", "%.0f", middle(waits))
		r.judge(b.name, "duplicates, worst round", "%.0f", float64(duplicates), atMost(4096))
		r.judge(b.name, "rows out of order", "%.0f", float64(disordered), atMost(0))
		return nil
	})
}

// rollingStudy restarts three replicas one after the other under load.
func rollingStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachBroker(func(b namedBroker) error {
		var waits []float64
		duplicates, disordered := 0, 0
		for round := range l.rounds {
			s := shift{replicas: 3, rows: l.rows, perSecond: 5000}
			s.disturb = func(ctx context.Context, running []*program, start func() (*program, error)) ([]*program, error) {
				for i, old := range running {
					if err := old.stop(); err != nil {
						return running, err
					}
					replacement, err := start()
					if err != nil {
						return running, err
					}
					running[i] = replacement
					if err := awaitShares(ctx, running); err != nil {
						return running, err
					}
				}
				return running, nil
			}
			w, err := l.work(ctx, b, s)
			if err != nil {
				return err
			}
			fmt.Printf("%s, round %d: a row waited %.0f ms at most, %d duplicates\n", b.name, round+1, w.longest, w.duplicates)
			waits = append(waits, w.longest)
			duplicates += w.duplicates
			disordered += w.disordered
		}
		r.judge(b.name, "duplicates", "%.0f", float64(duplicates), atMost(0))
		r.judge(b.name, "longest wait of a row, ms, worst round", "%.0f", slices.Max(waits), atMost(1000))
		r.judge(b.name, "rows out of order", "%.0f", float64(disordered), atMost(0))
		return nil
	})
}

// shift is a time of steady traffic in which something happens to the replicas.
type shift struct {
	replicas, rows int
	perSecond      float64
	disturb        func(ctx context.Context, running []*program, start func() (*program, error)) ([]*program, error)
}

// worked is what a consumer saw of a shift.
type worked struct {
	longest                float64 // ms from the return of a row's commit to its arrival
	duplicates, disordered int
}

func (l *lab) work(ctx context.Context, b namedBroker, s shift) (w worked, err error) {
	table, topic, remove, err := l.prepare(ctx, b, true)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	running, err := l.startReplicas(ctx, s.replicas, table.url, b.url)
	defer func() {
		for _, relay := range running {
			relay.kill()
		}
	}()
	if err != nil {
		return w, err
	}
	const writers = 16
	keys := l.keys / writers * writers
	arrived, end := consume(ctx, b, topic, func(row int) int { return row % keys })
	defer func() { err = errors.Join(err, end()) }()

	type written struct {
		commits []commit
		err     error
	}
	writing := make(chan written, 1)
	writeCtx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		commits, err := traffic{rows: s.rows, perSecond: s.perSecond, writers: writers, keys: keys}.run(writeCtx, table.url, topic)
		writing <- written{commits, err}
	}()
	if err := arrived.await(ctx, s.rows/5); err != nil {
		stop()
		<-writing
		return w, err
	}
	running, err = s.disturb(ctx, running, func() (*program, error) { return l.startRelay(ctx, table.url, b.url) })
	if err != nil {
		stop()
		<-writing
		return w, err
	}
	done := <-writing
	if done.err != nil {
		return w, done.err
	}
	if err := arrived.await(ctx, s.rows); err != nil {
		return w, err
	}
	for _, relay := range running {
		if err := relay.stop(); err != nil {
			return w, err
		}
	}
	for _, c := range done.commits {
		w.longest = max(w.longest, float64(arrived.at(c.row).Sub(c.returned).Milliseconds()))
	}
	w.duplicates, w.disordered = arrived.duplicates, arrived.disordered
	return w, nil
}
