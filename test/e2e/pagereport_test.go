//go:build page

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/health"
	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// serveReport serves the page of a report on any port.
func serveReport(t *testing.T, report func() operate.Report) (addr string) {
	t.Helper()
	listening := make(chan net.Addr, 1)
	server := &health.Server{
		Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Listening: func(a net.Addr) { listening <- a },
		Status: func(context.Context, bool) any { return report() },
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return (<-listening).String()
}

// anHour is a report of an ordinary day: two destinations, one of them with a topic whose stream is missing.
func anHour(now time.Time) operate.Report {
	history := func(rate, latency float64) (all []operate.Interval, relayed int64) {
		for i := range 120 {
			x := float64(i)
			rows := int64(30 * rate * (1 + 0.35*math.Sin(x/17) + 0.1*math.Sin(x*1.7) + 0.05*math.Cos(x*4.1)))
			p50, p99 := latency*(1+0.15*math.Sin(x/5)), latency*(3+math.Sin(x/9)+0.6*math.Cos(x*2.3))
			if i > 70 && i < 76 {
				p99 *= 4
			}
			all = append(all, operate.Interval{
				From: now.Add(time.Duration(i-120) * 30 * time.Second), Seconds: 30, Relayed: rows, LatencyP50: &p50,
				LatencyP99: &p99,
			})
			relayed += rows
		}
		return all, relayed
	}
	n := func(v int64) *int64 { return &v }
	age := func(v float64) *float64 { return &v }
	orders, ordersRelayed := history(850, 0.009)
	audit, auditRelayed := history(120, 0.006)
	return operate.Report{
		At: now, Table: "shop.outbox_messages", Limit: 10_001, Problems: []string{},
		Destinations: []operate.Destination{
			{
				Name: "orders", Held: n(214), Backlog: operate.Backlog{
					Due: n(231), Retrying: n(2), Scheduled: n(40), Failed: n(3), AtLeast: []string{},
					OldestAgeSeconds: age(312),
					Topics: []operate.Topic{
						{Topic: "order.refunded", Due: 2, Retrying: 2, Failed: 3, OldestAgeSeconds: age(12)},
						{Topic: "order.shipped", Due: 214, OldestAgeSeconds: age(312)},
						{Topic: "order.placed", Due: 15, Scheduled: 40, OldestAgeSeconds: age(0.02)},
					},
				},
				Process: &operate.DestinationProcess{
					Up: true, InFlight: 15, BlockedKeys: 97, Relayed: ordersRelayed, History: orders,
					Reasons: []operate.ReasonRows{{Reason: "retry", Rows: 2}, {Reason: "topology", Rows: 212}},
					Holds: []operate.Hold{{
						Reason: "topology", What: "topic order.shipped", Topics: []string{"order.shipped"},
						Since: now.Add(-312 * time.Second),
						Error: "no stream takes the subject order.shipped: create one, or add the subject to a stream",
					}},
				},
			},
			{
				Name: "audit", Held: n(0), Backlog: operate.Backlog{
					Due: n(4), Retrying: n(0), Scheduled: n(0), Failed: n(0), AtLeast: []string{},
					OldestAgeSeconds: age(0.01),
					Topics:           []operate.Topic{{Topic: "audit.login", Due: 4, OldestAgeSeconds: age(0.01)}},
				},
				Process: &operate.DestinationProcess{
					Up: true, InFlight: 4, Relayed: auditRelayed, History: audit, Reasons: []operate.ReasonRows{},
					Holds: []operate.Hold{},
				},
			},
		},
		Ownership: &operate.Ownership{Groups: []operate.Group{}, Shares: operate.Shares{
			Shards: 16, Owned: 16, Replicas: []operate.Replica{
				{Backend: 4711, Shards: 8, Of: 16, CanPublish: true},
				{Backend: 4712, Shards: 8, Of: 16, CanPublish: true},
			},
		}},
		Process: &operate.Process{
			Version: "0.1.0", Commit: "89a37c7d2f1b", StartedAt: now.Add(-26 * time.Hour), Ready: true, Shards: 8,
			InFlight: 19,
			Checks: []operate.Check{
				{Name: "database", OK: true},
				{Name: "table", OK: true},
				{Name: "ownership", OK: true, Text: "relays 8 of 16 shards; replicas: 2"},
				{Name: "destination orders", OK: true, Text: fmt.Sprintf("rows of topic %q are held", "order.shipped")},
				{Name: "destination audit", OK: true},
			},
		},
	}
}

// troubled is a report in which many things are wrong, with as many destinations.
func troubled(now time.Time, destinations int) operate.Report {
	r := anHour(now)
	busy, idle := r.Destinations[1].Process.History, []operate.Interval{}
	n := func(v int64) *int64 { return &v }
	age := func(v float64) *float64 { return &v }
	calm := func(name string, history []operate.Interval) operate.Destination {
		return operate.Destination{
			Name: name, Held: n(0), Backlog: operate.Backlog{
				Due: n(0), Retrying: n(0), Scheduled: n(0), Failed: n(0), AtLeast: []string{}, OldestAgeSeconds: age(0),
				Topics: []operate.Topic{},
			},
			Process: &operate.DestinationProcess{
				Up: true, History: history, Reasons: []operate.ReasonRows{},
				Holds: []operate.Hold{},
			},
		}
	}
	down := func(name, reason string) operate.Destination {
		d := calm(name, busy)
		d.Due, d.OldestAgeSeconds, d.Held, d.AtLeast = n(10_001), age(200), n(10_001), []string{"due"}
		d.Process.Up, d.Process.Reason, d.Process.InFlight = false, reason, 1000
		d.Process.Reasons = []operate.ReasonRows{{Reason: "unavailable", Rows: 10_001}}
		d.Topics = []operate.Topic{{
			Topic: "audit." + strings.Repeat("very_long_name_", 18), Due: 10_001,
			OldestAgeSeconds: age(200),
		}}
		return d
	}
	failing := calm("notifications", idle)
	failing.Failed, failing.AtLeast = n(10_001), []string{"failed"}
	failing.Topics = []operate.Topic{{Topic: "order.0", Failed: 9001}, {Topic: "order.1", Failed: 1000}}
	paused := calm("mail", busy)
	paused.Process.Paused, paused.Due, paused.Held = true, n(12), n(12)
	all := []operate.Destination{
		r.Destinations[0], failing,
		down("audit", "dial tcp 10.244.12.17:5672: connect: connection refused: nothing listens there: check that "+
			"RabbitMQ runs, the port, and OUTBOX_DESTINATION_AUDIT_PUBLISH_URL"), paused, calm("dead-letters", idle),
	}
	all[0].Process.History = append([]operate.Interval(nil), all[0].Process.History...)
	for i := range all[0].Process.History[100:] { // an axis of minutes
		slow := 150.0
		all[0].Process.History[100+i].LatencyP99 = &slow
	}
	for len(all) < destinations {
		all = append(all, calm(fmt.Sprintf("region-%d", len(all)), idle))
	}
	if destinations > 8 {
		all[8] = down("search-index", "no broker answers")
		all[8].BestEffort = true
		r.Untaken = &operate.Backlog{
			Due: n(3), Retrying: n(0), Scheduled: n(0), Failed: n(0), AtLeast: []string{}, OldestAgeSeconds: age(7000),
			Topics: []operate.Topic{{Topic: "refund.created", Due: 3, OldestAgeSeconds: age(7000)}},
		}
	}
	replicas := r.Ownership.Replicas
	replicas[1].CanPublish = false
	r.Ownership.Groups = []operate.Group{
		{
			Group: outbox.Group{Names: []string{"orders", "notifications", "mail"}}, Configured: true,
			Shares: operate.Shares{Shards: 16, Owned: 16, Replicas: replicas},
		},
		{
			Group: outbox.Group{Names: []string{"audit"}, Column: "audit_relayed_at"}, Configured: true,
			Shares: operate.Shares{Shards: 16, Owned: 16, Replicas: replicas[:1]},
		},
	}
	if destinations > 12 {
		r.Ownership.Groups = append(r.Ownership.Groups, operate.Group{
			Group: outbox.Group{Names: []string{"reports"}}, Shares: operate.Shares{Shards: 16, Replicas: []operate.Replica{}},
		})
	}
	if destinations == 1 {
		r.Process.Checks = append(r.Process.Checks, operate.Check{
			Name: "marks", OK: true, Text: "rows that cannot be marked or refused now: 1; settle rows: ERROR: not today",
		})
	}
	if r.Destinations = all[:destinations]; destinations == 0 {
		r.Problems = []string{"the table cannot be looked at yet: the checks say why"}
		r.Ownership = nil
	}
	return r
}
