package main

import (
	"context"
	"slices"
)

// takeoverStudy kills one of two replicas under load repeatedly, and measures how long rows had to wait.
func takeoverStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachBroker(func(b broker) error {
		shifts, err := l.shifts(ctx, b, func(round int) shift {
			return shift{replicas: 2, rows: l.rows, perSecond: 1000, disturb: killOne(round)}
		})
		if err != nil {
			return err
		}
		waits := each(shifts, longest)
		r.judge(b.name, "longest wait of a row after kill -9, ms, worst round", "%.0f", slices.Max(waits), atMost(3000))
		r.state(b.name, "longest wait of a row after kill -9, ms, median round", "%.0f", middle(waits))
		r.judge(b.name, "duplicates, worst round", "%.0f", slices.Max(each(shifts, duplicates)), atMost(4096))
		r.judge(b.name, "rows out of order", "%.0f", sum(each(shifts, disordered)), atMost(0))
		return nil
	})
}

// rollingStudy restarts three replicas one after the other under load.
func rollingStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachBroker(func(b broker) error {
		shifts, err := l.shifts(ctx, b, func(int) shift {
			return shift{replicas: 3, rows: l.rows, perSecond: 5000, disturb: restartEach}
		})
		if err != nil {
			return err
		}
		r.judge(b.name, "duplicates", "%.0f", sum(each(shifts, duplicates)), atMost(0))
		r.judge(b.name, "longest wait of a row, ms, worst round", "%.0f", slices.Max(each(shifts, longest)),
			atMost(1000))
		r.judge(b.name, "rows out of order", "%.0f", sum(each(shifts, disordered)), atMost(0))
		return nil
	})
}

func longest(w worked) float64    { return w.longest }
func duplicates(w worked) float64 { return float64(w.duplicates) }
func disordered(w worked) float64 { return float64(w.disordered) }

// killOne kills another replica in each round, as a crash would, and starts a new one in its place.
func killOne(round int) disturbance {
	return func(_ context.Context, running []*program, start func() (*program, error)) error {
		victim := round % len(running)
		running[victim].Kill()
		replacement, err := start()
		if err != nil {
			return err
		}
		running[victim] = replacement
		return nil
	}
}

// restartEach performs a rolling restart.
func restartEach(ctx context.Context, running []*program, start func() (*program, error)) error {
	for i, old := range running {
		if err := old.stop(); err != nil {
			return err
		}
		replacement, err := start()
		if err != nil {
			return err
		}
		running[i] = replacement
		if err := awaitShares(ctx, running); err != nil {
			return err
		}
	}
	return nil
}
