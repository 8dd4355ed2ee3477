package relay

import (
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/outbox-relay/outbox-relay/outbox"
	"github.com/outbox-relay/outbox-relay/owner"
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
	d := newDispatch(Limits{Batch: 1, Rows: 100, Bytes: 1 << 20}, []*Destination{to}, 1, 1, newSimTable(), slog.New(slog.DiscardHandler), m)
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

// The rows of a key that is blocked behind its queued ones are dropped before it is read again, or the
// re-read would begin behind them.
func TestVoidRowsAreDroppedBeforeTheReread(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	to := d.destinations[0]
	d.take(of("a", 1, 2), nil, false, now)
	if rows := d.batch(to, 0, now); len(rows) != 1 {
		t.Fatalf("%d rows in a batch", len(rows))
	}
	h := &hold{index: -1}
	h.fail(causeTopology, publisher.ErrClosed, 0, now)
	d.topics[topic{destination: to, name: "b"}] = h
	d.take(of("b", 3), nil, false, now)
	d.release(h)
	blocks := d.rereads(now)
	if len(blocks) != 1 || blocks[0].head != 2 {
		t.Fatalf("the key is read from %+v on, want from 2", blocks)
	}
	if len(d.inFlight) != 1 {
		t.Errorf("%d rows in flight, want the one on the wire", len(d.inFlight))
	}
}

// The queued rows of a key that is passed over are dropped before the walk begins anew, or one of them would go before those that a
// worker has dropped already.
func TestRowsPassedOverAreDroppedBeforeTheWalk(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.take(of("a", 1, 2), nil, false, now)
	h := hold{index: -1}
	h.fail(causeTopology, publisher.ErrClosed, 0, now)
	d.pass(&row{Row: &of("b", 3)[0], key: key{text: "k"}}, &h, now)
	d.release(&h)
	if !d.rewound() || len(d.inFlight) != 0 {
		t.Errorf("%d rows in flight", len(d.inFlight))
	}
}

// A row that was committed late goes before a queued one of its key with the same order value, such as a time in whole seconds,
// if its id is smaller.
func TestLateRowWithAnEqualOrderValue(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	row := func(ordinal int64, id string) outbox.Row {
		return outbox.Row{Message: publisher.Message{ID: id, Topic: "t", Key: []byte("k")}, Position: outbox.At(ordinal, id), Attempt: 1}
	}
	d.take([]outbox.Row{row(7, "b"), row(7, "d")}, nil, false, now)
	d.take([]outbox.Row{row(7, "c"), row(7, "a"), row(7, "e")}, nil, false, now)
	var order string
	for q := &d.destinations[0].queues[0]; q.len() > 0; {
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
	d.take(rows, nil, false, now)
	to := d.destinations[0]
	for _, want := range []int{2, 1, 1} {
		if got := len(d.batch(to, 0, now)); got != want {
			t.Errorf("%d rows in a batch, want %d", got, want)
		}
		to.busy[0] = false
	}
}

// A read that began before a shard was won, or before it was lost and won again, returns rows that another replica may
// have settled meanwhile, after the answer was made. They are not taken.
func TestReadsFromBeforeTheShardCameBringNothing(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.own(owner.Set{})
	d.own(owner.All(1))
	if taken, _ := d.take(of("a", 1), nil, false, now); taken > 0 {
		t.Error("rows are taken from a read that began before the shard was lost")
	}
	d.begin()
	if taken, _ := d.take(of("a", 1), nil, false, now); taken != 1 {
		t.Errorf("%d rows are taken from the next read", taken)
	}
}
