package relay

import (
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// testDispatch is a dispatch of one destination with one worker, which publishes row by row.
func testDispatch(t *testing.T) *dispatch {
	t.Helper()
	to := &Destination{Name: "default", MaxAttempts: 5, BackoffMin: time.Second, BackoffMax: time.Minute}
	m, err := newMetrics(noop.Meter{}, []*Destination{to})
	if err != nil {
		t.Fatal(err)
	}
	d := newDispatch(Limits{Batch: 1, Rows: 100, Bytes: 1 << 20}, to, 1, 1, newSimTable(), slog.New(slog.DiscardHandler), m)
	d.own(owner.All(1))
	d.begin()
	return d
}

// of returns rows of the key k in a topic, with these ordinals.
func of(topic string, ordinals ...int64) []outbox.Row {
	var rows []outbox.Row
	for _, n := range ordinals {
		id := string(rune('a' + n))
		rows = append(rows, outbox.Row{Message: publisher.Message{ID: id, Topic: topic, Key: []byte("k")}, Position: outbox.At(n, id), Attempt: 1})
	}
	return rows
}

// The rows of a key that waits behind its queued ones are dropped before it is tried, or it would go on behind them.
func TestVoidRowsAreDropped(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.take(of("a", 1, 2), fromWalk, now)
	rows := d.batch(0, now)
	if len(rows) != 1 {
		t.Fatalf("%d rows in a batch", len(rows))
	}
	d.answer(0, rows, []error{publisher.TopologyError("no topic", "no topic")}, now)
	w := d.waits.byKey[rows[0].hash]
	if w == nil || w.head != 1 || !w.passed() || w.low != 2 || len(d.inFlight) != 0 {
		t.Errorf("the key waits as %+v with %d rows in flight", w, len(d.inFlight))
	}
}

// A row that was committed late goes before a queued one of its key with the same order value, such as a time in whole seconds,
// if its id is smaller.
func TestLateRowWithAnEqualOrderValue(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	row := func(ordinal int64, id string) outbox.Row {
		return outbox.Row{Message: publisher.Message{ID: id, Topic: "t", Key: []byte("k")}, Position: outbox.At(ordinal, id), Attempt: 1}
	}
	d.take([]outbox.Row{row(7, "b"), row(7, "d")}, fromWalk, now)
	d.take([]outbox.Row{row(7, "c"), row(7, "a"), row(7, "e")}, fromWalk, now)
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
		q.push(&row{})
	}
	for range 10_000 {
		q.pop()
		q.push(&row{})
	}
	if cap(q.rows) > 100 || q.len() != 10 {
		t.Errorf("room for %d rows with %d in it", cap(q.rows), q.len())
	}
}

// A batch stops at half the bytes that may be in flight, so that another can be read meanwhile; a row that
// is larger goes alone.
func TestBatchIsBoundInBytes(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.limits = Limits{Batch: 100, Rows: 100, Bytes: 10_000}
	rows := of("a", 1, 2, 3, 4)
	for i, size := range []int{4000, 4000, 20_000, 10} {
		rows[i].Message.Payload = make([]byte, size)
	}
	d.take(rows, fromWalk, now)
	for _, want := range []int{2, 1, 1} {
		if got := len(d.batch(0, now)); got != want {
			t.Errorf("%d rows in a batch, want %d", got, want)
		}
		d.lanes[0].wire = nil
	}
}

// A read that began before a shard was won, or before it was lost and won again, returns rows that another replica may
// have settled meanwhile, after the answer was made. They are not taken.
func TestReadsFromBeforeTheShardCameBringNothing(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.own(owner.Set{})
	d.own(owner.All(1))
	if taken, _ := d.take(of("a", 1), fromWalk, now); taken > 0 {
		t.Error("rows are taken from a read that began before the shard was lost")
	}
	d.begin()
	if taken, _ := d.take(of("a", 1), fromWalk, now); taken != 1 {
		t.Errorf("%d rows are taken from the next read", taken)
	}
}
