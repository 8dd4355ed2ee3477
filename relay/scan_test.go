package relay

import (
	"log/slog"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// steps are the reads of an engine whose loop is the test.
type steps struct {
	*reads
	t     *testing.T
	kinds chan feed.Kind // of the reads that were begun
	now   time.Time
}

// newSteps returns the reads of an engine that owns all shards of a table with an index by key.
func newSteps(t *testing.T) *steps {
	t.Helper()
	s := newSim(t)
	s.table.byKey, s.table.unique = true, true
	m, err := newMetrics(s.meter, s.destinations)
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	e := &engines{
		process: process{
			config:  &Config{Destinations: s.destinations, PollInterval: s.interval, Shards: simShards, Logger: logger, Tracer: tracenoop.Tracer{}},
			metrics: m, database: &database{logger: logger}, changes: &s.changes,
		},
		limits: s.limits, workers: 1, together: simTogether, owners: s.owners(), doorbell: s.doorbell,
		views: map[*Destination]Table{s.destinations[0]: s.table},
	}
	e.make()
	p := &steps{reads: e.all[0].reads, t: t, kinds: make(chan feed.Kind, 1), now: time.Now()}
	go func() {
		for r := range p.requests {
			p.kinds <- r.kind
		}
	}()
	p.dispatch.Follow(owner.All(simShards), owner.Set{}, p.now)
	p.dispatch.Rewound()
	return p
}

// begin begins a read a second later, and returns its kind.
func (p *steps) begin(what func(time.Time) bool) (feed.Kind, bool) {
	p.now = p.now.Add(time.Second)
	if !what(p.now) {
		return 0, false
	}
	p.busy = false
	return <-p.kinds, true
}

// read returns a read that has returned rows.
func (p *steps) read(kind feed.Kind, rows ...outbox.Row) read {
	page := outbox.Page{Rows: rows}
	if len(rows) > 0 {
		page.End = rows[len(rows)-1].Position
	}
	return read{kind: kind, page: page, started: p.now, ended: p.now}
}

// A short catch-up scan leaves something to the next one, which then has no key to bring anything of: the only one waits until a refusal
// has been written. As always, late rows are looked for before the head is read.
func TestTailScanGoesOnAfterAScanWithoutKeys(t *testing.T) {
	p := newSteps(t)
	d := p.dispatch
	row := func(n int64, id string) outbox.Row {
		return outbox.Row{Message: publisher.Message{ID: id, Topic: "t", Key: []byte("k")}, Position: outbox.At(n, id), Attempt: 1}
	}
	p.begin(p.readFeed)
	p.takeFeed(p.read(feed.Tail, row(4, "k4")))
	var lane int
	var sent []*dispatch.Row
	d.Hand(p.now, func(l int, rows []*dispatch.Row) { lane, sent = l, rows })
	d.Begin()
	d.Decline([]outbox.Row{row(5, "k5")}, p.now)
	if _, ok := p.begin(p.readScan); !ok {
		t.Fatal("no scan")
	}
	changed := row(5, "k5")
	changed.Beyond = true // another session has changed it during the scan
	p.scan.within = &outbox.Horizon{}
	p.takeScan(p.read(readScan, changed))
	d.Answer(lane, sent, []error{publisher.RefusedError("no", "no")}, p.now)
	p.begin(p.readScan)
	d.Write(p.now, func(o dispatch.Outcome) {
		o.Effects = map[string]dispatch.Effect{o.Refused[0].Row.Identity(): dispatch.Written}
		d.Written(o, p.now)
	})
	p.begin(p.readFeed)
	p.takeFeed(p.read(feed.Tail))
	p.looked, p.now = false, p.now.Add(time.Minute)
	kind, ok := p.begin(p.readHeads)
	if kind == feed.Reconcile { // is due
		p.takeFeed(p.read(kind))
		kind, ok = p.begin(p.readHeads)
	}
	if !ok || kind != feed.Tail {
		t.Errorf("the head is read before late rows are looked for: %v, %v", kind, ok)
	}
}
