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

// troubled describes how rows without trouble were relayed beside rows with it.
type troubled struct {
	rate     float64         // rows/s of a backlog that was committed at once
	latency  []time.Duration // times of steady traffic from the return of COMMIT to a consumer, sorted
	tuples   float64         // tuples read for each relayed row, in the table and its indexes
	memory   float64         // MiB
	lines    int             // number of log lines at WARN and ERROR
	wrong    int             // messages that arrived twice, or after a later row of their key
	first    time.Duration   // time from the end of the trouble until the first waiting row was relayed
	waited   int             // number of rows that waited
	finished time.Duration   // time from then on until all of them were relayed
}

// troubleStudy puts some rows in trouble and measures the others: first a backlog with a twentieth of further rows in
// trouble, then steady traffic with as many. The reference has no trouble. At the end the trouble is removed and the
// waiting rows flow.
func troubleStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachBroker(func(b broker) error {
		for _, t := range troubles {
			if t.broker != "" && t.broker != b.name {
				continue
			}
			if err := l.compareTrouble(ctx, b, r, t); err != nil {
				return err
			}
		}
		if b.name != "kafka" || !strings.Contains(deadPartitionName, l.only) {
			return nil
		}
		return l.besideDeadPartition(ctx, r)
	})
}

// compareTrouble measures one kind of trouble, with each number of keys or topics, by turns with the control.
func (l *lab) compareTrouble(ctx context.Context, b broker, r *report, t trouble) error {
	for _, n := range t.numbers {
		name := fmt.Sprintf("%s: %d", t.name, n)
		if !strings.Contains(name, l.only) {
			continue
		}
		var with, without []troubled
		for round := range l.rounds {
			control, err := l.trouble(ctx, b, t, 0)
			if err != nil {
				return fmt.Errorf("%s, control: %w", name, err)
			}
			found, err := l.trouble(ctx, b, t, n)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Printf("%s, %s, round %d: %.0f rows/s beside %.0f, p99 %.1f ms beside %.1f\n", b.name, name, round+1,
				found.rate, control.rate, percentile(found.latency, 99), percentile(control.latency, 99))
			with, without = append(with, found), append(without, control)
		}
		t.report(r, b.name, name, n, with, without)
	}
	return nil
}

func (t trouble) report(r *report, on, name string, n int, with, without []troubled) {
	compare := func(what, format string, figure func(troubled) float64, b bound) {
		r.compare(on, name+": "+what, format, each(with, figure), each(without, figure), b)
	}
	slower := atMost(2)
	if n > 10_000 {
		slower = atMost(3)
	}
	compare("rows/s of the others", "%.0f", func(f troubled) float64 { return f.rate }, atLeast(0.8))
	compare("p99 ms of the others", "%.1f", func(f troubled) float64 { return percentile(f.latency, 99) }, slower)
	compare("tuples read per relayed row", "%.1f", func(f troubled) float64 { return f.tuples }, atMost(2))
	memory := func(f troubled) float64 { return f.memory }
	r.contrast(on, name+": peak MiB", "%.0f", each(with, memory), each(without, memory))
	r.judge(on, name+": log lines at WARN and ERROR, most", "%.0f", largest(each(with, func(f troubled) float64 {
		return float64(f.lines)
	})),
		atMost(mostLines))
	r.judge(on, name+": duplicates and rows out of order", "%.0f", sum(each(with, func(f troubled) float64 {
		return float64(f.wrong)
	})),
		atMost(0))
	if t.ends == nil || n > t.mostEnded {
		return
	}
	first := largest(each(with, func(f troubled) float64 { return f.first.Seconds() }))
	if n <= 100 {
		r.judge(on, name+": seconds until what waited flows, longest", "%.1f", first, atMost(2))
	} else {
		r.state(on, name+": seconds until what waited flows, longest", "%.1f", first)
	}
	if n >= 10_000 {
		compare("rows/s of what waited", "%.0f", func(f troubled) float64 {
			if f.waited == 0 {
				return f.rate
			}
			return float64(f.waited) / f.finished.Seconds()
		}, atLeast(0.8))
	}
}

// mostLines is one line for each kind of cause that a trouble has, and one for the count of each minute.
const mostLines = 3

// trouble runs a relay beside n keys, topics or partitions in trouble; with 0 the run is the control.
func (l *lab) trouble(ctx context.Context, b broker, t trouble, n int) (found troubled, err error) {
	table, topic, remove, err := l.prepare(ctx, b, true)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	s := site{outbox: table, broker: b, topic: topic, number: n}
	defer func() { err = errors.Join(err, s.clean(ctx)) }()
	if n > 0 {
		if err := t.begins(ctx, &s); err != nil {
			return found, fmt.Errorf("begin the trouble: %w", err)
		}
	}
	if err := table.vacuum(ctx); err != nil {
		return found, err
	}
	relay, err := l.startRelay(ctx, table.url, b.url, t.settings...)
	if err != nil {
		return found, err
	}
	defer relay.Kill()
	arrived, end := consume(ctx, b, topic, keyOf(l.keys))
	defer func() { err = errors.Join(err, end()) }()

	// the first rows of a process include the cost of its connections
	if _, err := s.drain(ctx, 2000, l.keys, t); err != nil {
		return found, err
	}
	if n > 0 {
		if err := s.awaitTrouble(ctx, relay, t); err != nil {
			return found, err
		}
	}
	if err := pause(ctx, lookback); err != nil {
		return found, err
	}
	before, err := table.tuples(ctx)
	if err != nil {
		return found, err
	}
	took, err := s.drain(ctx, l.rows, l.keys, t)
	if err != nil {
		return found, err
	}
	found.rate = float64(l.rows) / took.Seconds()
	if err := pause(ctx, lookback); err != nil {
		return found, err
	}

	stopTrickle := s.trickle(ctx, t)
	steady := traffic{from: s.next, rows: steadyRows, perSecond: 500, writers: 4, keys: l.keys}
	commits, err := steady.run(ctx, table.url, topic)
	if err = errors.Join(err, stopTrickle()); err != nil {
		return found, err
	}
	if err := arrived.awaitEach(ctx, commits); err != nil {
		return found, err
	}
	for _, c := range commits {
		found.latency = append(found.latency, arrived.at(c.row).Sub(c.returned))
	}
	slices.Sort(found.latency)
	after, err := table.tuples(ctx)
	if err != nil {
		return found, err
	}
	found.tuples = float64(after-before) / float64(l.rows+steadyRows)
	if n > 0 && t.ends != nil && n <= t.mostEnded {
		if err := s.recover(ctx, t, &found); err != nil {
			return found, relay.fail(err)
		}
	}
	found.wrong = arrived.wrong()
	peak, err := peakMemory(relay.PID())
	if err != nil {
		return found, err
	}
	found.memory = float64(peak) / mib
	if err := relay.stop(); err != nil {
		return found, err
	}
	found.lines = complaints(relay.Log())
	return found, nil
}

// complaints counts the lines of a log at WARN and ERROR. It shows them if they are too many.
func complaints(log string) (n int) {
	var text strings.Builder
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
			text.WriteString(line)
			n++
		}
	}
	if n > mostLines {
		fmt.Print(text.String())
	}
	return n
}

// lookback is a little more than the time for which each look of a relay goes over what was inserted. A burst, or a
// start before a backlog, makes looks dearer for that long. That is not what the study is about.
const lookback = 6 * time.Second

// steadyRows is the number of rows that are written at a steady rate to measure their latency.
const steadyRows = 5000

// recover ends the trouble and waits until the waiting rows have been relayed.
func (s *site) recover(ctx context.Context, t trouble, found *troubled) error {
	count := func() (n int, err error) {
		err = s.conn.QueryRow(ctx,
			"select count(*) from outbox_messages where relayed_at is null and failed_at is null").Scan(&n)
		return n, err
	}
	waited, err := count()
	if err != nil {
		return err
	}
	if err := t.ends(ctx, s); err != nil {
		return fmt.Errorf("end the trouble: %w", err)
	}
	ended := time.Now()
	limited, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	left := waited
	err = testkit.Until(limited, 50*time.Millisecond, func() (done bool, err error) {
		left, err = count()
		if found.first == 0 && left < waited {
			found.first = time.Since(ended)
		}
		return left == 0, err
	})
	if err != nil {
		return fmt.Errorf("%d of %d rows that waited are not relayed: %w", left, waited, err)
	}
	found.waited, found.finished = waited, time.Since(ended)-found.first
	return nil
}

// tuples returns how many tuples were read so far, from the table and from its indexes. A session reports what it has
// read within ten seconds (PGSTAT_IDLE_INTERVAL) if it does nothing more.
func (o *outbox) tuples(ctx context.Context) (n int64, err error) {
	if err := pause(ctx, 11*time.Second); err != nil {
		return 0, err
	}
	err = o.conn.QueryRow(ctx, `select coalesce(sum(seq_tup_read + idx_tup_fetch), 0) + (select
		coalesce(sum(idx_tup_read), 0) from
	pg_stat_user_indexes where schemaname = $1)
		from pg_stat_user_tables where schemaname = $1`, o.schema).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read statistics: %w", err)
	}
	return n, nil
}

// awaitEach waits until the row of each commit has arrived.
func (a *arrivals) awaitEach(ctx context.Context, commits []commit) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	next := 0
	err := testkit.Until(ctx, 10*time.Millisecond, func() (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for next < len(commits) && !a.first[commits[next].row].IsZero() {
			next++
		}
		return next == len(commits), a.err
	})
	if err != nil {
		return fmt.Errorf("%d of %d rows arrived: %w", next, len(commits), err)
	}
	return nil
}
