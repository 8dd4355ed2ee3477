package main

import (
	"context"
	"errors"
	"fmt"
)

// shift is a period of steady traffic in which something happens to the replicas.
type shift struct {
	replicas, rows int
	perSecond      float64
	disturb        disturbance
}

// disturbance does something to the running replicas. Replicas that start returns take the places of others in running.
type disturbance func(ctx context.Context, running []*program, start func() (*program, error)) error

// worked is what a consumer saw during a shift.
type worked struct {
	longest                float64 // ms from the return of a row's commit to its arrival
	duplicates, disordered int
}

// shifts runs one shift in each round.
func (l *lab) shifts(ctx context.Context, b broker, next func(round int) shift) (all []worked, err error) {
	for round := range l.rounds {
		w, err := l.work(ctx, b, next(round))
		if err != nil {
			return nil, err
		}
		fmt.Printf("%s, round %d: a row waited %.0f ms at most, %d duplicates\n", b.name, round+1, w.longest,
			w.duplicates)
		all = append(all, w)
	}
	return all, nil
}

func (l *lab) work(ctx context.Context, b broker, s shift) (w worked, err error) {
	table, topic, remove, err := l.prepare(ctx, b, true)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	running, err := l.startReplicas(ctx, s.replicas, table.url, b.url)
	defer func() {
		for _, relay := range running {
			relay.Kill()
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
		commits, err := traffic{rows: s.rows, perSecond: s.perSecond, writers: writers, keys: keys}.run(writeCtx,
			table.url,
			topic)
		writing <- written{commits, err}
	}()
	if err := arrived.await(ctx, s.rows/5); err != nil {
		stop()
		<-writing
		return w, err
	}
	if err := s.disturb(ctx, running, func() (*program, error) {
		return l.startRelay(ctx, table.url, b.url)
	}); err != nil {
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
