package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// wake is one way by which a relay learns of new rows.
type wake struct {
	name     string
	doorbell bool // the table has the trigger
	notify   bool // the application notifies
	settings []string
	direct   bool // there is no relay: the writer publishes after its commit
}

// direct is the reference: what broker, consumer and machine take by themselves.
var direct = wake{name: "direct", direct: true}

var wakes = []wake{
	{name: "doorbell trigger", doorbell: true},
	{name: "LISTEN", notify: true},
	{name: "polling alone", settings: []string{"OUTBOX_LISTEN_CHANNEL="}},
}

// load is one kind of traffic with the targets for its latency in milliseconds.
type load struct {
	name       string
	traffic    traffic
	p50, p99   float64 // with a hint
	polled     float64 // p99 with polling alone
	onlyPolled bool
}

// latencyStudy measures the time from commit to a consumer of the broker, by the clock of this process, which
// writes and consumes. All ways to wake the relay take turns.
func latencyStudy(ctx context.Context, l *lab, r *report) error {
	const writers = 8
	loads := []load{
		{name: "single rows, idle relay", traffic: traffic{rows: max(20, l.rows/100), perSecond: 4, writers: 1, keys: l.keys}, p50: 3, p99: 10, polled: 60},
		{name: "1,000 rows/s, 8 writers", traffic: traffic{rows: l.rows, perSecond: 1000, writers: writers, keys: l.keys / writers * writers}, p50: 3, p99: 15, polled: 60},
		{name: "commits up to 1 s late, 64 writers", traffic: traffic{rows: l.rows / 10, perSecond: 100, writers: 64, keys: 64, late: time.Second}, polled: 60, onlyPolled: true},
	}
	return l.eachBroker(func(b namedBroker) error {
		fromReturn, fromSent := map[string][]time.Duration{}, map[string][]time.Duration{}
		name := func(load load, wake wake) string { return load.name + ", " + wake.name }
		for round := range l.rounds {
			for _, load := range loads {
				for _, wake := range append([]wake{direct}, wakes...) {
					if load.onlyPolled && (wake.doorbell || wake.notify) {
						continue
					}
					returned, sent, err := l.latency(ctx, b, wake, load.traffic)
					if err != nil {
						return fmt.Errorf("%s: %w", name(load, wake), err)
					}
					n := name(load, wake)
					fromReturn[n], fromSent[n] = append(fromReturn[n], returned...), append(fromSent[n], sent...)
					slices.Sort(returned)
					fmt.Printf("%s, %s, round %d: p50 %.1f ms, p99 %.1f ms\n", b.name, n, round+1, percentile(returned, 50), percentile(returned, 99))
				}
			}
		}
		for _, load := range loads {
			reference := fromReturn[name(load, direct)]
			slices.Sort(reference)
			for _, wake := range wakes {
				n := name(load, wake)
				returned, sent := fromReturn[n], fromSent[n]
				if returned == nil {
					continue
				}
				slices.Sort(returned)
				slices.Sort(sent)
				p50, p99 := atMost(load.p50), atMost(load.p99)
				if !wake.doorbell && !wake.notify {
					p50, p99 = atMost(load.polled), atMost(load.polled)
				}
				for _, line := range []struct {
					what    string
					percent float64
					bound   bound
				}{{"p50", 50, p50}, {"p99", 99, p99}} {
					r.judgeBeside(b.name, fmt.Sprintf("%s: %s ms", n, line.what), "%.1f", percentile(returned, line.percent), percentile(reference, line.percent), line.bound)
				}
				r.state(b.name, n+": max ms", "%.1f", percentile(returned, 100))
				r.state(b.name, n+": p50 ms from COMMIT sent", "%.1f", percentile(sent, 50))
			}
		}
		return nil
	})
}

// latency returns the times from the return of each commit to the arrival of its row, and those from
// sending it.
func (l *lab) latency(ctx context.Context, b namedBroker, w wake, t traffic) (returned, sent []time.Duration, err error) {
	table, topic, remove, err := l.prepare(ctx, b, w.doorbell)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var relay *program
	t.direct = func(ctx context.Context, body []byte) error { return b.publish(ctx, topic, body) }
	if !w.direct {
		t.direct = nil
		if relay, err = l.startRelay(ctx, table.url, b.url, w.settings...); err != nil {
			return nil, nil, err
		}
		defer relay.kill()
	}
	arrived, end := consume(ctx, b, topic, func(row int) int { return row % t.keys })
	defer func() { err = errors.Join(err, end()) }()

	// The first rows of a process pay for its connections.
	warm := traffic{rows: 100, perSecond: 100, writers: 1, keys: t.keys, notify: w.notify, direct: t.direct}
	if _, err := warm.run(ctx, table.url, topic); err != nil {
		return nil, nil, err
	}
	t.from, t.notify = warm.rows, w.notify
	commits, err := t.run(ctx, table.url, topic)
	if err != nil {
		return nil, nil, err
	}
	if err := arrived.await(ctx, warm.rows+t.rows); err != nil {
		return nil, nil, err
	}
	for _, c := range commits {
		at := arrived.at(c.row)
		returned, sent = append(returned, at.Sub(c.returned)), append(sent, at.Sub(c.sent))
	}
	if relay != nil {
		err = relay.stop()
	}
	return returned, sent, err
}
