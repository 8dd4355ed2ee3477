package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// fared is the result of one destination while the other is paused or in trouble.
type fared struct {
	rate    float64 // rows/s of a backlog
	latency []time.Duration
	memory  float64 // MiB
}

// badBroker makes the address and the topic of a destination in trouble; clean removes them.
type badBroker func(ctx context.Context, b broker, topic string) (address, to string, clean func() error, err error)

var badBrokers = []struct {
	name string
	make badBroker
	not  string // a kind of broker with which this trouble cannot be made
}{
	{name: "down", make: func(ctx context.Context, b broker, topic string) (string, string, func() error, error) {
		addr, err := testkit.FreeAddress(ctx)
		if err != nil {
			return "", "", nil, err
		}
		address, err := moved(b.url, addr)
		return address, topic, func() error { return nil }, err
	}},
	{name: "frozen", make: func(ctx context.Context, b broker, topic string) (string, string, func() error, error) {
		// the kernel accepts connections, and nothing answers
		silent, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", nil, err
		}
		address, err := moved(b.url, silent.Addr().String())
		return address, topic, silent.Close, err
	}},
	{name: "refusing everything", not: "rabbitmq", make: func(
		ctx context.Context, b broker, topic string,
	) (string, string, func() error, error) {
		to := topic + "-refuses"
		err := b.Create(ctx, testkit.Topic{Name: to, Most: 1})
		return b.url, to, func() error { return b.Remove(context.WithoutCancel(ctx), to) }, err
	}},
}

// moved is a broker's URL at another address.
func moved(address, to string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("an address is not a URL")
	}
	u.Host = to
	return u.String(), nil
}

func (l *lab) besideTrouble(ctx context.Context, b broker, r *report) error {
	for _, bad := range badBrokers {
		name := "other " + bad.name
		if !strings.Contains(name, l.only) || bad.not == b.name {
			continue
		}
		var with, without []fared
		for round := range l.rounds {
			control, err := l.fare(ctx, b, bad.make, true)
			if err != nil {
				return fmt.Errorf("%s, paused: %w", name, err)
			}
			found, err := l.fare(ctx, b, bad.make, false)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Printf("%s, %s, round %d: %.0f rows/s beside %.0f paused, p99 %.1f ms beside %.1f\n", b.name, name,
				round+1,
				found.rate,
				control.rate,
				percentile(found.latency, 99), percentile(control.latency, 99))
			with, without = append(with, found), append(without, control)
		}
		rate := func(f fared) float64 { return f.rate }
		p99 := func(f fared) float64 { return percentile(f.latency, 99) }
		memory := func(f fared) float64 { return f.memory }
		r.compare(b.name, name+": rows/s", "%.0f", each(with, rate), each(without, rate), atLeast(0.95))
		r.compare(b.name, name+": p99 ms", "%.1f", each(with, p99), each(without, p99), atMost(1.5))
		r.judge(b.name, name+": peak MiB", "%.0f", largest(each(with, memory)), atMost(192))
	}
	return nil
}

// fare lets the first of two destinations drain a backlog, and then relay steady traffic for the duration, while the
// other is in trouble or paused.
func (l *lab) fare(ctx context.Context, b broker, make badBroker, paused bool) (found fared, err error) {
	table, topic, remove, err := l.prepare(ctx, b, true)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	address, to, clean, err := make(ctx, b, topic)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, clean()) }()
	if err := table.addDestination(ctx, l, second); err != nil {
		return found, err
	}
	if err := table.fill(ctx, seed{topic: topic, rows: l.rows, keys: l.keys}); err != nil {
		return found, err
	}
	if err := table.vacuum(ctx); err != nil {
		return found, err
	}
	settings := append(two(b.url, address), destination("AUDIT", "COLUMNS", ownColumns(second)),
		destination("AUDIT", "TOPIC", to),
		destination("AUDIT", "PAUSE", fmt.Sprint(paused)))
	settings = append(settings, "OUTBOX_DATABASE_URL="+table.url)
	relay, err := testkit.StartRelay(ctx, l.relay, settings, "") // it may never be ready
	if err != nil {
		return found, err
	}
	defer relay.Kill()
	took, err := table.awaitMarks(ctx, "relayed_at", relay.Started)
	if err != nil {
		return found, (&program{Relay: relay}).fail(err)
	}
	found.rate = float64(l.rows) / took.Seconds()

	arrived, end := consume(ctx, b, topic, func(row int) int { return row % l.keys })
	defer func() { err = errors.Join(err, end()) }()
	if err := arrived.await(ctx, l.rows); err != nil {
		return found, err
	}
	const perSecond, writers = 500, 4
	steady := traffic{
		from: l.rows + l.keys, rows: int(l.duration.Seconds() * perSecond), perSecond: perSecond, writers: writers,
		keys: l.keys / writers * writers,
	}
	commits, err := steady.run(ctx, table.url, topic)
	if err != nil {
		return found, err
	}
	if err := arrived.awaitEach(ctx, commits); err != nil {
		return found, (&program{Relay: relay}).fail(err)
	}
	for _, c := range commits {
		found.latency = append(found.latency, arrived.at(c.row).Sub(c.returned))
	}
	slices.Sort(found.latency)
	peak, err := peakMemory(relay.PID())
	found.memory = float64(peak) / mib
	return found, err
}
