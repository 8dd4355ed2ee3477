package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// dueFrom is the number of the first row that becomes due while the study measures.
const dueFrom = 500_000_000

const (
	scheduleForLater = `insert into outbox_messages (topic, key, payload, available_at)
select $2, 'order-' || i % 1000, '{}', now() + interval '1 day' + i * interval '1 second' from generate_series(1,
$1::int) i`

	scheduleSoon = `insert into outbox_messages (topic, key, payload, available_at)
select $2, 'order-' || i % 1000, jsonb_build_object('n', lpad((500000000 + i)::text, 9, '0'), 'data',
rpad(md5(i::text), 479, 'x')),
	$3::timestamptz + i * $4::bigint * interval '1 microsecond' from generate_series(0, $1::int - 1) i`
)

// dueStudy measures the delay of rows that become due, while many are scheduled for later and others flow. The
// reference is the same table without the indexes that `schema --delays` prints.
func dueStudy(ctx context.Context, l *lab, r *report) error {
	rates := []float64{200, 1000}
	return l.eachBroker(func(b broker) error {
		late, flow := map[bool][][]time.Duration{}, map[bool][][]time.Duration{}
		for _, indexed := range []bool{false, true} {
			for _, rate := range rates {
				delayed, others, err := l.due(ctx, b, indexed, rate)
				if err != nil {
					return err
				}
				slices.Sort(delayed)
				slices.Sort(others)
				fmt.Printf("%s, indexes %v, %.0f rows/s: late by p50 %.0f, p99 %.0f, at most %.0f ms; others p99 "+
					"%.1f ms\n", b.name,
					indexed, rate,
					percentile(delayed, 50), percentile(delayed, 99), percentile(delayed, 100), percentile(others, 99))
				late[indexed], flow[indexed] = append(late[indexed], delayed), append(flow[indexed], others)
			}
		}
		for i, rate := range rates {
			beside := fmt.Sprintf("%d scheduled, beside %.0f rows/s: ", l.rows, rate)
			for _, line := range []struct {
				what    string
				percent float64
				most    float64
			}{{"p50", 50, 0}, {"p99", 99, 1000}, {"max", 100, 0}} {
				what, measured, reference := beside+"late by "+line.what+" ms", percentile(late[true][i], line.percent),
					percentile(late[false][i],
						line.percent)
				if line.most > 0 {
					r.judgeBeside(b.name, what, "%.0f", measured, reference, atMost(line.most))
				} else {
					r.contrast(b.name, what, "%.0f", []float64{measured}, []float64{reference})
				}
			}
			r.contrast(b.name, beside+"those relayed within p99 ms", "%.1f", []float64{percentile(flow[true][i], 99)},
				[]float64{percentile(flow[false][i], 99)})
		}
		return nil
	})
}

// due returns the delays of rows that became due at random times, and the latencies of others that were due at once.
func (l *lab) due(ctx context.Context, b broker, indexed bool, rate float64) (late, others []time.Duration, err error) {
	table, topic, remove, err := l.prepare(ctx, b, true)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := l.delays(ctx, table, indexed); err != nil {
		return nil, nil, err
	}
	if _, err := table.conn.Exec(ctx, scheduleForLater, l.rows, topic); err != nil {
		return nil, nil, fmt.Errorf("schedule: %w", err)
	}
	if err := table.vacuum(ctx); err != nil {
		return nil, nil, err
	}
	relay, err := l.startRelay(ctx, table.url, b.url)
	if err != nil {
		return nil, nil, err
	}
	defer relay.Kill()
	const writers, lasts, perSecond = 8, 30 * time.Second, 50
	t := traffic{rows: int(rate * lasts.Seconds()), perSecond: rate, writers: writers, keys: l.keys / writers * writers}
	arrived, end := consume(ctx, b, topic, func(row int) int { return row }) // rows with available_at keep no order
	defer func() { err = errors.Join(err, end()) }()
	if err := pause(ctx, 10*time.Second); err != nil { // the first tail scan is not measured
		return nil, nil, err
	}
	soon, step := int(perSecond*lasts.Seconds()), int64(time.Second/time.Microsecond/perSecond)
	from := time.Now().Add(2 * time.Second).Truncate(time.Microsecond)
	if _, err := table.conn.Exec(ctx, scheduleSoon, soon, topic, from, step); err != nil {
		return nil, nil, fmt.Errorf("schedule: %w", err)
	}
	commits, err := t.run(ctx, table.url, topic)
	if err != nil {
		return nil, nil, err
	}
	if err := arrived.await(ctx, soon+t.rows); err != nil {
		return nil, nil, err
	}
	for i := range soon {
		due := from.Add(time.Duration(int64(i)*step) * time.Microsecond)
		late = append(late, arrived.at(dueFrom+i).Sub(due))
	}
	for _, c := range commits {
		others = append(others, arrived.at(c.row).Sub(c.returned))
	}
	return late, others, relay.stop()
}

// delays adds the column of due times to the table, and the indexes that the relay prints if indexed is set.
func (l *lab) delays(ctx context.Context, table *outbox, indexed bool) error {
	statement := "alter table outbox_messages add available_at timestamptz"
	if indexed {
		command := exec.CommandContext(ctx, l.relay, "schema", "--delays")
		command.Env = withoutSettings(os.Environ())
		ddl, err := command.Output()
		if err != nil {
			return fmt.Errorf("print schema: %w", err)
		}
		at := strings.Index(string(ddl), "alter table")
		if at < 0 {
			return errors.New("schema --delays prints no alter table")
		}
		statement = string(ddl[at:])
	}
	if _, err := table.conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("add due times: %w", err)
	}
	return nil
}
