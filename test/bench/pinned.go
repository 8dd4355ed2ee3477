package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// flows are the rates, in rows per second, at which rows are written while the reads are watched.
var flows = []int{0, 1, 100, 1000}

// passing is the cost of reads that pass many relayed rows, at each of the flows, and of a drain after them.
type passing struct {
	reads [][]explained
	rate  float64
}

// pinnedStudy relays rows while a transaction is open all the time, so that their dead versions cannot be cleaned up,
// and measures the cost of the reads. The reference is a table that was vacuumed instead.
func pinnedStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachBroker(func(b broker) error {
		var pinned, vacuumed []passing
		for round := range l.rounds {
			for _, pin := range []bool{false, true} {
				found, err := l.passing(ctx, b, pin)
				if err != nil {
					return err
				}
				name, to := "vacuumed", &vacuumed
				if pin {
					name, to = "pinned", &pinned
				}
				*to = append(*to, found)
				fmt.Printf("%s, %s, round %d: then %.0f rows/s\n", b.name, name, round+1, found.rate)
				for i, reads := range found.reads {
					fmt.Printf("    %d rows/s: %d reads, %.0f buffers and %.2f ms each\n", flows[i], len(reads),
						middle(buffers(reads)),
						middle(millis(reads)))
				}
			}
		}
		for i, flow := range flows {
			figure := func(value func([]float64) float64) func(passing) float64 {
				return func(f passing) float64 { return value(buffers(f.reads[i])) }
			}
			at := fmt.Sprintf(" while %d rows/s flow", flow)
			r.compare(b.name, "buffers of a read, median,"+at, "%.0f", each(pinned, figure(middle)),
				each(vacuumed, figure(middle)), atMost(2))
			r.contrast(b.name, "buffers of a read, mean with the reconciliation scans,"+at, "%.0f",
				each(pinned, figure(mean)), each(vacuumed, figure(mean)))
		}
		rate := func(f passing) float64 { return f.rate }
		r.compare(b.name, "rows/s of a drain after them", "%.0f", each(pinned, rate), each(vacuumed, rate),
			atLeast(0.7))
		return nil
	})
}

func buffers(reads []explained) []float64 {
	return each(reads, func(e explained) float64 { return e.buffers })
}

func (l *lab) passing(ctx context.Context, b broker, pin bool) (found passing, err error) {
	table, topic, remove, err := l.prepare(ctx, b, false)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if pin {
		conn, err := pgx.Connect(ctx, table.url)
		if err != nil {
			return found, err
		}
		defer conn.Close(ctx) // ends its transaction
		if _, err := conn.Exec(ctx, "begin isolation level repeatable read; select pg_current_xact_id()"); err != nil {
			return found, err
		}
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
	if _, err := table.fillAndDrain(ctx, seed{topic: topic, rows: l.rows, keys: l.keys}); err != nil {
		return found, err
	}
	if !pin {
		if _, err := table.conn.Exec(ctx, "vacuum outbox_messages"); err != nil {
			return found, err
		}
	}
	row := l.rows
	for _, flow := range flows {
		// After some seconds the relay no longer looks back at the rows that it relayed before.
		const settles, watched = 8, 12
		write := func(seconds int) error {
			if flow == 0 {
				return pause(ctx, time.Duration(seconds)*time.Second)
			}
			t := traffic{from: row, rows: seconds * flow, perSecond: float64(flow), writers: 1, keys: l.keys}
			row += t.rows
			_, err := t.run(ctx, table.url, topic)
			return err
		}
		if err := write(settles); err != nil {
			return found, err
		}
		if _, err := database.take(); err != nil {
			return found, err
		}
		if err := write(watched); err != nil {
			return found, err
		}
		reads, err := database.take()
		if err != nil {
			return found, err
		}
		found.reads = append(found.reads, reads)
	}
	rows := l.rows / 2
	took, err := table.fillAndDrain(ctx, seed{topic: topic, rows: rows, keys: l.keys})
	if err != nil {
		return found, err
	}
	found.rate = float64(rows) / took.Seconds()
	return found, relay.stop()
}
