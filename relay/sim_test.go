package relay

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/outbox-relay/outbox-relay/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// simTable is an outbox in memory. Reads and writes take a little of the bubble's time, and a read sees the
// table as it was when it began, as in PostgreSQL.
type simTable struct {
	mu      sync.Mutex
	rows    map[string]*simRow
	open    []*simRow // neither relayed nor failed, in table order
	took    time.Duration
	down    bool
	settles int // calls that marked something
	unkept  bool
}

type simRow struct {
	id        string
	ordinal   int64
	shard     int
	message   publisher.Message
	attempt   int64
	relayed   bool
	failed    bool
	lastError string
	updated   time.Time
	relays    int // times that it was marked
}

func newSimTable() *simTable { return &simTable{rows: map[string]*simRow{}, took: time.Millisecond} }

func (t *simTable) insert(ordinal int64, id, key, topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &simRow{id: id, ordinal: ordinal, shard: simShard(key, id), attempt: 1, message: publisher.Message{ID: id, DedupID: id, Topic: topic, Payload: []byte(id), Inserted: time.Now()}}
	if key != "" {
		r.message.Key = []byte(key)
	}
	t.rows[id] = r
	at, _ := slices.BinarySearchFunc(t.open, r, func(a, b *simRow) int {
		if outbox.At(a.ordinal, a.id).Before(outbox.At(b.ordinal, b.id)) {
			return -1
		}
		return 1
	})
	t.open = slices.Insert(t.open, at, r)
}

// close takes rows out of the open ones that are relayed or failed. The caller holds mu.
func (t *simTable) close() {
	t.open = slices.DeleteFunc(t.open, func(r *simRow) bool { return r.relayed || r.failed })
}

var errSimDown = errors.New("the database is down")

func (t *simTable) Read(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	t.mu.Lock()
	var page outbox.Page
	for _, r := range t.open {
		position := outbox.At(r.ordinal, r.id)
		switch {
		case q.IDs != nil && !slices.Contains(q.IDs, r.id),
			q.Keys != nil && (r.message.Key == nil || !slices.Contains(q.Keys, string(r.message.Key)) || r.ordinal < *q.From),
			q.Recent != nil && r.ordinal < *q.Recent,
			q.Shards != nil && !slices.Contains(q.Shards, r.shard),
			!q.After.IsZero() && !q.After.Before(position):
			continue
		}
		row := outbox.Row{Message: r.message, Shard: r.shard, Position: position, Attempt: r.attempt}
		if r.lastError != "" {
			row.Retried, row.Waited = true, time.Since(r.updated)
		}
		page.Rows = append(page.Rows, row)
		page.Bytes += int64(row.Message.Size())
		page.End = position
		if page.More = len(page.Rows) == q.Limit; page.More {
			break
		}
	}
	down := t.down
	t.mu.Unlock()
	time.Sleep(t.took)
	if down {
		return outbox.Page{}, errSimDown
	}
	return page, nil
}

func (t *simTable) Settle(ctx context.Context, ids []string) error {
	time.Sleep(t.took)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return errSimDown
	}
	t.settles++
	for _, id := range ids {
		t.rows[id].relayed = true
		t.rows[id].relays++
	}
	t.close()
	return nil
}

func (t *simTable) Refuse(ctx context.Context, refusals []outbox.Refusal) (written []string, err error) {
	time.Sleep(t.took)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return nil, errSimDown
	}
	for _, x := range refusals {
		r := t.rows[x.ID]
		if r.relayed || r.failed || r.attempt != x.Attempt {
			continue
		}
		r.attempt, r.lastError, r.updated, r.failed = x.Attempt+1, x.Error, time.Now(), x.Failed
		written = append(written, x.ID)
	}
	t.close()
	return written, nil
}

func (t *simTable) Ordinal() bool       { return true }
func (t *simTable) Ranked() bool        { return false }
func (t *simTable) Delays() bool        { return false }
func (t *simTable) KeepsFailures() bool { return !t.unkept }
func (t *simTable) KeepsAttempts() bool { return !t.unkept }

func (t *simTable) setDown(down bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.down = down
}

func (t *simTable) row(id string) simRow {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *t.rows[id]
}

// pending returns the ids of the rows that are neither relayed nor failed.
func (t *simTable) pending() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := make([]string, 0, len(t.open))
	for _, r := range t.open {
		ids = append(ids, r.id)
	}
	return ids
}

// drained waits until nothing is pending.
func (t *simTable) drained(tb testing.TB, within time.Duration) {
	tb.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		ids := t.pending()
		if len(ids) == 0 {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%d rows still pending after %v: %.200q", len(ids), within, ids)
		}
	}
}

// sim is a relay of a simulated table to brokers in memory.
type sim struct {
	table *simTable
	*publishertest.Broker
	t            testing.TB
	destinations []*Destination
	limits       Limits
	owner        *simOwner
}

type deaf struct{}

func (deaf) Up() bool   { return false }
func (deaf) Sleep(bool) {}

func newSim(t testing.TB) *sim {
	s := &sim{t: t, table: newSimTable(), Broker: publishertest.NewBroker(), limits: Limits{Batch: 100, Rows: 400, Bytes: 1 << 20}}
	s.owner = newSimOwner(simShards)
	s.destinations = []*Destination{s.destination("default", s.Broker)}
	return s
}

func (s *sim) destination(name string, b *publishertest.Broker, topics ...string) *Destination {
	return &Destination{Name: name, Publisher: b.Publisher(), Topics: topics, MaxAttempts: 5,
		BackoffMin: 500 * time.Millisecond, BackoffMax: time.Minute, PublishTimeout: 10 * time.Second}
}

// start runs an engine; the function that it returns stops it cleanly.
func (s *sim) start() (stop func()) {
	m, err := newMetrics(noop.Meter{}, s.destinations)
	if err != nil {
		s.t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	e := engine{table: s.table, destinations: s.destinations, limits: s.limits, interval: 50 * time.Millisecond, workers: 4,
		ownership: s.owner, shards: simShards, wakes: make(chan string), logger: logger, metrics: m, tracer: tracenoop.Tracer{},
		database: &database{logger: logger}, beat: &atomic.Int64{}, doorbell: deaf{}, stopTimeout: 25 * time.Second}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.run(ctx) // what it leaves undone is seen in the table
	}()
	return func() { cancel(); <-done }
}

// simulate runs f in a bubble of time.
func simulate(t *testing.T, f func(*testing.T, *sim)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newSim(t)) })
}

// firsts returns of each message in order of arrival the first delivery only, and how many others there
// were.
func firsts(messages []publisher.Message) (first []publisher.Message, duplicates int) {
	seen := map[string]bool{}
	for _, m := range messages {
		if seen[m.ID] {
			duplicates++
			continue
		}
		seen[m.ID] = true
		first = append(first, m)
	}
	return first, duplicates
}
