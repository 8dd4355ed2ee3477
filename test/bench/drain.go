package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// drain is one measured run of a program over a full table.
type drain struct {
	elapsed  time.Duration // time from the start of the process until no row was pending
	ready    time.Duration // time until /readyz reported readiness; 0 for a program without it
	itself   time.Duration // processor time of the program
	database time.Duration // processor time of the servers, 0 when it cannot be seen
	broker   time.Duration
	log      int64 // bytes of PostgreSQL's write-ahead log
	memory   int64 // peak resident bytes of the program
	stages   string
}

// drainer starts a program that drains the table into a topic.
type drainer struct {
	name  string
	hot   int // percentage of the rows on one key
	start func(ctx context.Context, topic string) (*program, error)
	check func() error // after each run; may be nil
}

// drainStudy lets the yardstick and the relay drain the same rows in turns. With a hot key, the yardstick's rows are
// still spread evenly, because it is the reference.
func drainStudy(ctx context.Context, l *lab, r *report) (err error) {
	binary, err := os.Stat(l.relay)
	if err != nil {
		return err
	}
	r.judge("relay", "binary, MiB", "%.1f", float64(binary.Size())/mib, atMost(25))
	yardstick, err := l.yardstick(ctx)
	if err != nil {
		return err
	}
	table, err := l.newOutbox(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, table.close(ctx)) }()
	return l.eachBroker(func(b broker) error {
		results, err := l.drains(ctx, table, b, []drainer{
			{name: "yardstick", start: func(ctx context.Context, topic string) (*program, error) {
				return start(exec.CommandContext(ctx, yardstick, "--database", table.url, "--url", b.url, "--topic",
					topic,
					"--partitions",
					fmt.Sprint(partitions)))
			}},
			{name: "relay", hot: l.hot, start: func(ctx context.Context, _ string) (*program, error) {
				return l.startRelay(ctx, table.url, b.url)
			}},
		})
		if err != nil {
			return err
		}
		reportDrain(r, b.name, l.rows, results[1], results[0], l.hot)
		if b.name == "rabbitmq" && l.hot > 0 {
			return reportOneByOne(ctx, r, b, l.hot)
		}
		return nil
	})
}

func reportDrain(r *report, on string, rows int, relay, yardstick []drain, hot int) {
	figure := func(what, format string, value func(drain) float64, target *bound) {
		own, reference := each(relay, value), each(yardstick, value)
		switch {
		case middle(reference) == 0: // it cannot be seen
		case target == nil:
			r.contrast(on, what, format, own, reference)
		default:
			r.compare(on, what, format, own, reference, *target)
		}
	}
	micros := func(time func(drain) time.Duration) func(drain) float64 {
		return func(d drain) float64 { return float64(time(d).Nanoseconds()) / 1000 / float64(rows) }
	}
	what, rate, processor, manners := "rows/s", new(atLeast(0.9)), new(atMost(1.4)), new(atMost(1.1))
	if hot > 0 {
		what, rate = fmt.Sprintf("rows/s, %d %% on a hot key", hot), new(atLeast(0.75))
		if on == "rabbitmq" {
			rate = nil
		}
		processor, manners = nil, nil // those targets apply to evenly spread rows
	}
	figure(what, "%.0f", func(d drain) float64 { return float64(rows) / d.elapsed.Seconds() }, rate)
	figure("own µs/row", "%.1f", micros(func(d drain) time.Duration { return d.itself }), processor)
	figure("PostgreSQL µs/row", "%.1f", micros(func(d drain) time.Duration { return d.database }), manners)
	figure("WAL B/row", "%.0f", func(d drain) float64 { return float64(d.log) / float64(rows) }, manners)
	figure("broker µs/row", "%.1f", micros(func(d drain) time.Duration { return d.broker }), nil)
	r.judge(on, "peak MiB", "%.0f", slices.Max(each(relay, func(d drain) float64 {
		return float64(d.memory) / mib
	})), atMost(64))
	r.judge(on, "ready after ms", "%.0f", middle(each(relay, func(d drain) float64 {
		return float64(d.ready.Milliseconds())
	})), atMost(300))
}

// drains lets programs drain the table in turns and returns each program's runs. A first run of the first program warms
// the broker up and is not counted, because a broker that has just started is several times as expensive.
func (l *lab) drains(ctx context.Context, table *outbox, b broker, drainers []drainer) ([][]drain, error) {
	results := make([][]drain, len(drainers))
	for round := range l.rounds + 1 {
		for i, p := range drainers {
			if round == 0 && i > 0 {
				continue
			}
			d, err := l.drain(ctx, table, b, p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			note := "warm-up"
			if round > 0 {
				results[i] = append(results[i], d)
				note = fmt.Sprint("round ", round)
			}
			fmt.Printf("%s %s, %s: %.0f rows/s in %v\n", b.name, p.name, note, float64(l.rows)/d.elapsed.Seconds(),
				d.elapsed.Round(time.Millisecond))
			if d.stages != "" {
				fmt.Println("   ", d.stages)
			}
		}
	}
	return results, nil
}

// drain seeds the table, lets the program drain it into a new topic and checks that each row has arrived
// once.
func (l *lab) drain(ctx context.Context, table *outbox, b broker, p drainer) (d drain, err error) {
	topic, remove, err := b.topic(ctx)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := table.seed(ctx, seed{topic: topic, rows: l.rows, keys: l.keys, hot: p.hot}); err != nil {
		return d, err
	}
	if d, err = l.timeDrain(ctx, table, b, p, topic); err != nil {
		return d, err
	}
	if p.check != nil {
		if err := p.check(); err != nil {
			return d, err
		}
	}
	return d, table.checkRelayed(ctx, b, topic, l.rows)
}

func (l *lab) timeDrain(ctx context.Context, table *outbox, b broker, p drainer, topic string) (d drain, err error) {
	log, err := table.log(ctx)
	if err != nil {
		return d, err
	}
	database, broker := used(l.databasePID), used(b.pid)
	running, err := p.start(ctx, topic)
	if err != nil {
		return d, err
	}
	defer running.Kill()
	d.ready = running.ready
	var asked time.Time
	err = testkit.Until(ctx, 20*time.Millisecond, func() (bool, error) {
		asked = time.Now() // the answer is about this moment
		return table.empty(ctx)
	})
	if err != nil {
		return d, running.fail(err)
	}
	d.elapsed = asked.Sub(running.Started)
	d.database, d.broker = used(l.databasePID)-database, used(b.pid)-broker
	end, err := table.log(ctx)
	if err != nil {
		return d, err
	}
	d.log = end - log
	if running.Address == "" { // the program ends by itself
		if err := running.wait(); err != nil {
			return d, err
		}
		d.itself, d.memory = running.Used()
		return d, nil
	}
	d.itself = processorTime(running.PID())
	m, err := running.Metrics(ctx)
	if err != nil {
		return d, running.fail(err)
	}
	d.stages = stages(m, d.elapsed)
	if d.memory, err = peakMemory(running.PID()); err != nil {
		return d, running.fail(err)
	}
	return d, running.stop()
}
