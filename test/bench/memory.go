package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// memoryStudy measures the largest resident size of a relay that drains small rows, large rows, and rows larger than
// its own bound.
func memoryStudy(ctx context.Context, l *lab, r *report) error {
	const bound = 64 // MiB, the default of OUTBOX_MAX_IN_FLIGHT_BYTES
	// By default, NATS and Kafka accept no more than 1 MiB, including everything around the payload.
	const large = mib - 8<<10
	return l.eachBroker(func(b broker) error {
		small, err := l.resident(ctx, b, l.rows, 512)
		if err != nil {
			return err
		}
		r.judge(b.name, fmt.Sprintf("peak MiB, %d rows of 512 B", l.rows), "%.0f", small.peak, atMost(64))
		full, err := l.resident(ctx, b, max(l.rows/500, 10), large)
		if err != nil {
			return err
		}
		r.judge(b.name, fmt.Sprintf("peak MiB, %d rows of 1 MiB", max(l.rows/500, 10)), "%.0f", full.peak,
			atMost(3*bound))
		alone, err := l.resident(ctx, b, 20, large, "OUTBOX_MAX_IN_FLIGHT_BYTES=512KiB")
		if err != nil {
			return err
		}
		r.judge(b.name, "rows in flight at once, 1 MiB each, bound 512 KiB", "%.0f", alone.inFlight, atMost(1))
		return nil
	})
}

// resident is the memory that a relay needed to drain a table.
type resident struct {
	peak     float64 // MiB
	inFlight float64 // largest number of rows in flight that was observed
}

func (l *lab) resident(ctx context.Context, b broker, rows, size int, settings ...string) (found resident, err error) {
	table, topic, remove, err := l.prepare(ctx, b, false)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	_, err = table.conn.Exec(ctx, `insert into outbox_messages (topic, key, payload)
		select $2, 'order-' || i % $3::int, jsonb_build_object('n', lpad(i::text, 9, '0'), 'data', $4::text)
		from generate_series(1, $1::int) i`, rows, topic, l.keys, strings.Repeat("x", size-33))
	if err != nil {
		return found, fmt.Errorf("fill: %w", err)
	}
	relay, err := l.startRelay(ctx, table.url, b.url, settings...)
	if err != nil {
		return found, err
	}
	defer relay.Kill()
	err = testkit.Until(ctx, 50*time.Millisecond, func() (bool, error) {
		m, err := relay.Metrics(ctx)
		if err != nil {
			return false, relay.fail(err)
		}
		found.inFlight = max(found.inFlight, m.Sum("in_flight_rows"))
		return table.empty(ctx)
	})
	if err != nil {
		return found, err
	}
	peak, err := peakMemory(relay.PID())
	if err != nil {
		return found, err
	}
	found.peak = float64(peak) / mib
	if err := table.checkRelayed(ctx, b, topic, rows); err != nil {
		return found, err
	}
	fmt.Printf("%s, %d rows of %d B: peak %.0f MiB, %.0f rows in flight at once\n", b.name, rows, size, found.peak,
		found.inFlight)
	return found, relay.stop()
}
