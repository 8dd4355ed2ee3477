package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// wake is a way in which a relay learns of new rows.
type wake struct {
	name     string
	doorbell bool // the table has the trigger
	notify   bool // the application notifies
	settings []string
	direct   bool // there is no relay: the writer publishes after its commit
}

// direct is the reference: the time that broker, consumer and machine take by themselves.
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
	p50, p99   float64 // above the reference, with the doorbell's trigger
	polled     float64 // p99 with polling alone
	onlyPolled bool
}

// latencyStudy measures the time from commit to a consumer of the broker, by the clock of this process, which both
// writes and consumes. All ways to wake the relay take turns.
func latencyStudy(ctx context.Context, l *lab, r *report) error {
	const writers = 8
	loads := []load{
		{
			name: "1 row/s", traffic: traffic{rows: max(20, l.rows/250), perSecond: 1, writers: 1, keys: l.keys},
			p50: 1, p99: 5,
			polled: 60,
		},
		{
			name: "200 rows/s", traffic: traffic{
				rows: l.rows / 5, perSecond: 200, writers: writers,
				keys: l.keys / writers * writers,
			}, p50: 1.5,
			p99: 6, polled: 60,
		},
		{
			name:    "1,000 rows/s",
			traffic: traffic{rows: l.rows, perSecond: 1000, writers: writers, keys: l.keys / writers * writers}, p50: 1,
			p99: 8, polled: 60,
		},
		{
			name: "5,000 rows/s", polled: 60,
			traffic: traffic{rows: 5 * l.rows, perSecond: 5000, writers: writers, keys: l.keys / writers * writers},
		},
		{name: "commits up to 1 s late, 64 writers", traffic: traffic{
			rows: l.rows / 10, perSecond: 100, writers: 64, keys: 64,
			late: time.Second,
		}, polled: 60, onlyPolled: true},
	}
	loads = slices.DeleteFunc(loads, func(load load) bool { return !strings.Contains(load.name, l.only) })
	return l.eachBroker(func(b broker) error {
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
					fmt.Printf("%s, %s, round %d: p50 %.1f ms, p99 %.1f ms\n", b.name, n, round+1,
						percentile(returned, 50),
						percentile(returned, 99))
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
				var inserts []time.Duration
				for i := range sent {
					inserts = append(inserts, sent[i]-returned[i])
				}
				slices.Sort(inserts)
				slices.Sort(returned)
				slices.Sort(sent)
				for _, line := range []struct {
					what    string
					percent float64
					above   float64
				}{{"p50", 50, load.p50}, {"p99", 99, load.p99}} {
					measured, least := percentile(returned, line.percent), percentile(reference, line.percent)
					switch what := fmt.Sprintf("%s: %s ms", n, line.what); {
					case wake.doorbell && line.above > 0:
						r.contrast(b.name, what, "%.1f", []float64{measured}, []float64{least})
						r.judge(b.name, what+" above the reference", "%.1f", measured-least, atMost(line.above))
					case wake.notify, wake.doorbell:
						r.contrast(b.name, what, "%.1f", []float64{measured}, []float64{least})
					default:
						r.judgeBeside(b.name, what, "%.1f", measured, least, atMost(load.polled))
					}
				}
				r.state(b.name, n+": max ms", "%.1f", percentile(returned, 100))
				r.state(b.name, n+": p50 ms from COMMIT sent", "%.1f", percentile(sent, 50))
				r.state(b.name, n+": p99 ms of COMMIT", "%.1f", percentile(inserts, 99))
			}
		}
		return nil
	})
}

// latency returns the times from the return of each commit to the arrival of its row, and the times from sending the
// commit.
func (l *lab) latency(ctx context.Context, b broker, w wake, t traffic) (returned, sent []time.Duration, err error) {
	table, topic, remove, err := l.prepare(ctx, b, w.doorbell)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var relay *program
	t.direct = func(ctx context.Context, body []byte) error { return b.publish(ctx, topic, body) }
	if !w.direct {
		t.direct = nil
		database := table.url
		if l.distance > 0 {
			far, err := startProxy(ctx, table.url, l.distance)
			if err != nil {
				return nil, nil, err
			}
			defer far.close()
			database = far.url
		}
		if relay, err = l.startRelay(ctx, database, b.url, w.settings...); err != nil {
			return nil, nil, err
		}
		defer relay.Kill()
	}
	arrived, end := consume(ctx, b, topic, func(row int) int { return row % t.keys })
	defer func() { err = errors.Join(err, end()) }()

	// The first rows of a process include the cost of its connections.
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
