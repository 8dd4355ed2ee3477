package dispatch

import (
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/late"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/report"
)

// testDispatch returns a dispatch of one destination with one worker, which publishes row by row.
func testDispatch(t *testing.T) *Dispatch {
	t.Helper()
	m, err := measure.New(noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	d := New(Setup{
		To: Destination{
			MaxAttempts: 5, BackoffMin: time.Second, BackoffMax: time.Minute,
			Prepare: func(*Row, time.Time) {}, Reported: &report.Outage{},
		},
		Limits: Limits{Batch: 1, Rows: 100, Bytes: 1 << 20}, Workers: 1, Shards: 1, Table: &stubTable{},
		Late: late.New(), Flights: noOthers{}, Beside: func(time.Time) bool { return false }, Measure: m.Destination("default"), Logger: logger,
	})
	d.own(owner.All(1))
	d.Begin()
	return d
}

// noOthers are the flights of a destination whose rows no other destination has.
type noOthers struct{}

func (noOthers) Others(string) uint64 { return 0 }
func (noOthers) Begin(*Row)           {}
func (noOthers) End(*Row)             {}
func (noOthers) Reached(int64)        {}

// of returns rows of the key k in a topic, with these ordinals.
func of(topic string, ordinals ...int64) []outbox.Row {
	var rows []outbox.Row
	for _, n := range ordinals {
		id := string(rune('a' + n))
		rows = append(rows, outbox.Row{
			Message:  publisher.Message{ID: id, Topic: topic, Key: []byte("k")},
			Position: outbox.At(n, id), Attempt: 1,
		})
	}
	return rows
}

// Queued rows of a key that waits because of an earlier row are dropped before that row is tried. Otherwise they would
// be published out of order.
func TestVoidRowsAreDropped(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(of("a", 1, 2), FromFeed, now)
	rows := d.batch(0, now)
	if len(rows) != 1 {
		t.Fatalf("%d rows in a batch", len(rows))
	}
	d.Answer(0, rows, []error{publisher.TopologyError("no topic", "no topic")}, now)
	w := d.waits.byKey[rows[0].Hash]
	if w == nil || w.head != 1 || !w.passed() || w.low != 2 || len(d.inFlight) != 0 {
		t.Errorf("the key waits as %+v with %d rows in flight", w, len(d.inFlight))
	}
}

// A row that was committed late goes before a queued row of its key with the same order value, such as a time in whole
// seconds, if its id is smaller.
func TestLateRowWithAnEqualOrderValue(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	row := func(ordinal int64, id string) outbox.Row {
		return outbox.Row{Message: publisher.Message{ID: id, Topic: "t", Key: []byte("k")}, Position: outbox.At(ordinal, id), Attempt: 1}
	}
	d.Take([]outbox.Row{row(7, "b"), row(7, "d")}, FromFeed, now)
	d.Take([]outbox.Row{row(7, "c"), row(7, "a"), row(7, "e")}, FromFeed, now)
	var order string
	for q := &d.lanes[0]; q.len() > 0; {
		order += q.pop().ID()
	}
	if order != "abcde" {
		t.Errorf("the key's rows go as %s", order)
	}
}

// A queue that never runs empty does not grow.
func TestQueueKeepsItsSize(t *testing.T) {
	var q queue
	for range 10 {
		q.push(&Row{})
	}
	for range 10_000 {
		q.pop()
		q.push(&Row{})
	}
	if cap(q.rows) > 100 || q.len() != 10 {
		t.Errorf("room for %d rows with %d in it", cap(q.rows), q.len())
	}
}

// A batch stops at half the bytes that may be in flight, so that another batch can be read meanwhile. A larger row goes
// alone.
func TestBatchIsBoundInBytes(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Limits = Limits{Batch: 100, Rows: 100, Bytes: 10_000}
	rows := of("a", 1, 2, 3, 4)
	for i, size := range []int{4000, 4000, 20_000, 10} {
		rows[i].Message.Payload = make([]byte, size)
	}
	d.Take(rows, FromFeed, now)
	for _, want := range []int{2, 1, 1} {
		if got := len(d.batch(0, now)); got != want {
			t.Errorf("%d rows in a batch, want %d", got, want)
		}
		d.lanes[0].wire = nil
	}
}

// A read that began before a shard was acquired, or before it was lost and acquired again, returns rows that another
// replica may have settled meanwhile. They are not taken.
func TestReadsFromBeforeTheShardCameBringNothing(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.own(owner.Set{})
	d.own(owner.All(1))
	if taken, _ := d.Take(of("a", 1), FromFeed, now); taken > 0 {
		t.Error("rows are taken from a read that began before the shard was lost")
	}
	d.Begin()
	if taken, _ := d.Take(of("a", 1), FromFeed, now); taken != 1 {
		t.Errorf("%d rows are taken from the next read", taken)
	}
}
