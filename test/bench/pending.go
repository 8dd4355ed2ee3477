package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// backlog is the result of a relay with a given number of pending rows.
type backlog struct {
	reads   []explained
	memory  int64
	scrapes []float64 // ms
}

// pendingStudy lets the relay work on a large backlog and on a small one, for a while or until it is relayed.
func pendingStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachBroker(func(b broker) error {
		var large, small []backlog
		for range l.rounds {
			for _, rows := range []int{l.rows / 100, l.rows} {
				found, err := l.backlog(ctx, b, rows)
				if err != nil {
					return err
				}
				fmt.Printf("%s, %d rows: %d reads, median %.0f buffers and %.1f ms\n", b.name, rows, len(found.reads),
					middle(buffers(found.reads)),
					middle(millis(found.reads)))
				if rows == l.rows {
					large = append(large, found)
				} else {
					small = append(small, found)
				}
			}
		}
		same := atMost(1.25)
		r.compare(b.name, "buffers of a read, median", "%.0f", each(large, func(f backlog) float64 {
			return middle(buffers(f.reads))
		}),
			each(small, func(f backlog) float64 { return middle(buffers(f.reads)) }), same)
		r.compare(b.name, "ms of a read in the server, median", "%.2f", each(large, func(f backlog) float64 {
			return middle(millis(f.reads))
		}),
			each(small, func(f backlog) float64 { return middle(millis(f.reads)) }), same)
		memory := func(f backlog) float64 { return float64(f.memory) / mib }
		r.compare(b.name, "peak MiB", "%.0f", each(large, memory), each(small, memory), same)
		r.judge(b.name, "/metrics answers after ms, median, during the drain", "%.1f",
			middle(each(large, func(f backlog) float64 { return middle(f.scrapes) })), atMost(50))
		r.judge(b.name, "/metrics answers after ms, longest, during the drain", "%.1f",
			slices.Max(each(large, func(f backlog) float64 { return largest(f.scrapes) })), atMost(50))
		return nil
	})
}

func millis(reads []explained) []float64 {
	return each(reads, func(e explained) float64 { return e.millis })
}

func (l *lab) backlog(ctx context.Context, b broker, rows int) (found backlog, err error) {
	table, topic, remove, err := l.prepare(ctx, b, false)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	// The rows are small, otherwise filling the table would take longest.
	_, err = table.conn.Exec(ctx, `insert into outbox_messages (topic, key, payload)
		select $2, 'order-' || i % $3::int, '{"total": 42}' from generate_series(1, $1::int) i`, rows, topic, l.keys)
	if err != nil {
		return found, fmt.Errorf("fill: %w", err)
	}
	if err := table.vacuum(ctx); err != nil {
		return found, err
	}
	database, err := startExplainer(ctx, table.url)
	if err != nil {
		return found, err
	}
	defer database.close()
	relay, err := l.startRelay(ctx, database.url, b.url)
	if err != nil {
		return found, err
	}
	defer relay.Kill()
	limited, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	err = testkit.Until(limited, 200*time.Millisecond, func() (bool, error) {
		asked := time.Now()
		if _, err := relay.Metrics(ctx); err != nil {
			return false, relay.fail(err)
		}
		found.scrapes = append(found.scrapes, float64(time.Since(asked).Microseconds())/1000)
		return table.empty(ctx)
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) { // a large backlog remains
		return found, err
	}
	if found.reads, err = database.take(); err != nil {
		return found, err
	}
	found.reads = slices.DeleteFunc(found.reads, func(e explained) bool { return e.rows == 0 })
	if found.memory, err = peakMemory(relay.PID()); err != nil {
		return found, err
	}
	return found, relay.stop()
}
