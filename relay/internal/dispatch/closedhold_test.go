package dispatch

import (
	"strconv"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

var (
	errNoTopic  = publisher.TopologyError("no topic", "no topic")
	errNoLeader = publisher.WithFate(publisher.UnavailableError(publisher.ScopeMessage, "no leader", "no leader"),
		publisher.Fate{Kind: publisher.FatePartition, Name: "t/0"})
)

// keyless removes the keys of rows.
func keyless(rows []outbox.Row) []outbox.Row {
	for i := range rows {
		rows[i].Message.Key = nil
	}
	return rows
}

// When a row has met a missing topic, queued rows of the topic are not handed over, and rows of it that are read are
// not taken.
func TestHoldTakesNothingMore(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(append(rowsOf("a", "t", 1), append(rowsOf("b", "t", 2), keyless(rowsOf("row", "t", 3, 4))...)...), FromFeed, now)
	published(t, d, errNoTopic, "a-1")
	published(t, d, nil, "")
	d.Begin()
	taken, waiting := d.Take(append(rowsOf("c", "t", 5), keyless(rowsOf("row", "t", 6))...), FromFeed, now)
	if taken != 0 || waiting != 2 || len(d.inFlight) != 0 {
		t.Errorf("%d rows are taken, %d wait, %d are in flight", taken, waiting, len(d.inFlight))
	}
}

// A key that waits for a partition is not taken from the tail scan, although its rows do not show the partition that they
// are published to.
func TestHeadOfAHeldKeyIsNotTaken(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(rowsOf("a", "t", 1), FromFeed, now)
	published(t, d, errNoLeader, "a-1")
	d.Begin()
	if taken, _ := d.Take(rowsOf("a", "t", 1, 2), FromFeed, now); taken != 0 {
		t.Errorf("%d rows are taken", taken)
	}
}

// try reads the heads that are to be tried at a time, and hands them over.
func try(t *testing.T, d *Dispatch, now time.Time, rows []outbox.Row) (onWire []*Row) {
	t.Helper()
	waits := d.Trials(10, now)
	if len(waits) != 1 {
		t.Fatalf("%d keys are tried", len(waits))
	}
	d.Begin()
	d.TakeTrials(waits, rows, false, now)
	return d.batch(d.workers(), now)
}

// While the head of one key tries what is in trouble, no other key does, even if keys join meanwhile.
func TestOneKeyTriesAHold(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(append(rowsOf("a", "t", 1), rowsOf("b", "t", 2)...), FromFeed, now)
	published(t, d, errNoTopic, "a-1")
	published(t, d, nil, "")
	now = now.Add(time.Minute)
	if rows := try(t, d, now, rowsOf("a", "t", 1)); len(rows) != 1 {
		t.Fatalf("%d rows try", len(rows))
	}
	d.Begin()
	d.Take(rowsOf("c", "t", 3), FromFeed, now)
	if waits := d.Trials(10, now.Add(time.Hour)); len(waits) != 0 {
		t.Errorf("%d more keys are tried", len(waits))
	}
}

// While the head of one key tries what is in trouble, the answer to another row says that each further try may leave a copy. No second
// head tries meanwhile, and all keys go on when the trouble is over.
func TestHeadThatTriesGoesOnWithItsHold(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.lanes = append(d.lanes, lane{queue: queue{before: d.Table.Before}}) // two workers
	quiet := publisher.UnavailableError(publisher.ScopeTopic, "full", "the queue is full")
	copies := &publisher.Error{Class: publisher.Unavailable, Scope: publisher.ScopeTopic, Short: "full", Err: quiet, Repeats: true}
	wires := map[int][]*Row{}
	for n := int64(1); len(wires) < 2; n++ { // two keys with different workers
		rows := rowsOf("key"+strconv.FormatInt(n, 10), "t", n)
		lane := int(keyOf(&rows[0]).Hash() % 2)
		if wires[lane] == nil {
			d.Take(rows, FromFeed, now)
			wires[lane] = d.batch(lane, now)
		}
	}
	first, second := []outbox.Row{*wires[0][0].Row}, []outbox.Row{*wires[1][0].Row}
	d.Answer(0, wires[0], []error{quiet}, now)
	now = now.Add(time.Minute)
	trial := try(t, d, now, first)
	d.Answer(1, wires[1], []error{copies}, now)
	now = now.Add(time.Hour)
	if waits := d.Trials(10, now); len(waits) > 0 {
		d.Begin()
		d.TakeTrials(waits, second, false, now)
		t.Errorf("%d more heads try", len(waits))
	}
	d.Answer(d.workers(), trial, []error{quiet}, now)
	now = now.Add(time.Hour)
	waits := d.Trials(10, now)
	d.Begin()
	d.TakeTrials(waits, append(first, second...), false, now)
	if trial = d.batch(d.workers(), now); len(trial) != 1 {
		t.Fatalf("%d heads try", len(trial))
	}
	d.Answer(d.workers(), trial, []error{nil}, now)
	for _, w := range d.waits.byKey {
		if w.state == held {
			t.Errorf("nothing is in trouble, and a key waits: %v", w)
		}
	}
}

// When a hold ends, a scan also brings the rows without a key that met it.
func TestEndOfAHoldBringsRowsWithoutAKey(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(keyless(rowsOf("row", "t", 1, 2, 3)), FromFeed, now)
	published(t, d, errNoTopic, "row-1")
	published(t, d, nil, "")
	now = now.Add(time.Minute)
	rows := try(t, d, now, keyless(rowsOf("row", "t", 1)))
	d.Answer(d.workers(), rows, make([]error, len(rows)), now)
	if low := d.Scanning(); low != 2 {
		t.Errorf("the scan begins at %d", low)
	}
}

// A row without a key neither waits for a partition nor tries it, since its next try may be given to another partition.
func TestRowWithoutAKeyWaitsForNoPartition(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(keyless(rowsOf("row", "t", 1)), FromFeed, now)
	published(t, d, errNoLeader, "row-1")
	if len(d.holds.byFate) != 0 {
		t.Errorf("%d holds", len(d.holds.byFate))
	}
}

// If only rows without a key wait for a hold, and its probe is gone, the next such row that a scan meets tries it. If a
// scan meets none, the hold ends.
func TestHalfOpenHold(t *testing.T) {
	for name, rest := range map[string][]int64{"met": {2, 3}, "not met": nil} {
		t.Run(name, func(t *testing.T) {
			d, now := testDispatch(t), time.Now()
			d.Take(keyless(rowsOf("row", "t", 1, 2, 3)), FromFeed, now)
			published(t, d, errNoTopic, "row-1")
			published(t, d, nil, "")
			now = now.Add(time.Minute)
			try(t, d, now, nil)
			if waits := d.Trials(10, now); len(waits) != 0 {
				t.Errorf("%d keys are tried", len(waits))
			}
			d.Scanning()
			d.Begin()
			if taken, _ := d.Take(keyless(rowsOf("row", "t", rest...)), fromScan, now); taken != min(1, len(rest)) {
				t.Errorf("%d rows of it are taken", taken)
			}
			d.Scanned(now)
			if got := len(d.holds.byFate); got != min(1, len(rest)) {
				t.Errorf("%d holds are left", got)
			}
		})
	}
}

// While nothing can be published to the destination, heads are read only if nothing is queued that can try it.
func TestHeadsAreNotReadInVainInAnOutage(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	if !d.Triable().IsZero() {
		t.Error("heads wait without an outage")
	}
	d.Take(rowsOf("a", "t", 1), FromFeed, now)
	published(t, d, publisher.UnavailableError(publisher.ScopeDestination, "down", "down"), "a-1")
	if !d.Triable().After(d.outage.until) {
		t.Error("heads are read although a queued row can try")
	}
	d.lanes[0].pop()
	if d.Triable() != d.outage.until {
		t.Errorf("with nothing queued heads are read from %v on, want %v", d.Triable(), d.outage.until)
	}
}

// A hold that begins and ends with the answers of one batch leaves the rows queued after its head where they are: after
// the head.
func TestHoldOfOneBatch(t *testing.T) {
	for _, ordinal := range []bool{true, false} {
		d, now := testDispatch(t), time.Now()
		d.Table.(*stubTable).unordered, d.Limits.Batch = !ordinal, 10
		d.Take(append(rowsOf("k", "t", 1), rowsOf("other", "t", 2)...), FromFeed, now)
		rows := d.batch(0, now)
		d.Begin()
		d.Take(rowsOf("k", "u", 3), FromFeed, now)
		d.Answer(0, rows, []error{errNoTopic, nil}, now)
		if len(d.holds.byFate) > 0 {
			t.Fatal("the hold goes on")
		}
		published(t, d, nil, "")
	}
}

// Two holds share a topic: its stream was full, and then it was gone. A row without a key that tries the first of them is taken by the
// second, which is half-open. The first is tried by its other key, and does not wait for ever.
func TestProbeThatAHalfOpenHoldTakesIsReplaced(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Limits.Batch = 3
	errFull := publisher.WithFate(publisher.UnavailableError(publisher.ScopeTopic, "full", "full"),
		publisher.Fate{Kind: publisher.FateStream, Name: "s"})
	rows := keyless(rowsOf("row", "t", 1))
	rows = append(rows, rowsOf("k", "t", 2)...)
	rows = append(rows, keyless(rowsOf("row", "t", 3, 4))...)
	d.Take(rows, FromFeed, now)
	d.Answer(0, d.batch(0, now), []error{errFull, errFull, errNoTopic}, now)
	published(t, d, nil, "") // row-4 joins the second hold
	a := d.holds.byFate[publisher.Fate{Kind: publisher.FateStream, Name: "s"}]
	b := d.holds.byFate[publisher.Fate{Kind: publisher.FateTopic, Name: "t"}]
	if a == nil || b == nil {
		t.Fatal("no two holds")
	}
	due := func(h *hold) { h.until = now; d.holds.due.Set(h) }
	a.until = now.Add(time.Hour)
	d.holds.due.Set(a)
	due(b)
	waits := d.Trials(10, now)
	d.Begin()
	d.TakeTrials(waits, nil, false, now) // row-3 was discarded
	d.Trials(10, now)
	if !b.halfOpen {
		t.Fatal("the second hold is not half-open")
	}
	due(a)
	waits = d.Trials(10, now)
	d.Begin()
	d.TakeTrials(waits, keyless(rowsOf("row", "t", 1)), false, now)
	sent := d.batch(d.workers(), now)
	if len(sent) != 1 {
		t.Fatal("row-1 is not tried")
	}
	d.Answer(d.workers(), sent, []error{nil}, now)
	for range 10 {
		now = now.Add(time.Hour)
		for _, w := range d.Trials(10, now) {
			if w.headID == "k-2" {
				return
			}
		}
	}
	t.Errorf("the first hold is never tried again: %s", d.Leftover())
}

// Rows without a key wait for a hold that is half-open while no more keys are remembered. The scan that meets them does not end the hold
// and forget them.
func TestHalfOpenHoldIsNotForgottenWhenThereIsNoRoomForItsProbe(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.waits.most = 1
	d.Limits.Batch = 1
	d.Take(keyless(rowsOf("row", "t", 1, 2)), FromFeed, now)
	published(t, d, errNoTopic, "row-1")
	published(t, d, nil, "")
	h := d.holds.byFate[publisher.Fate{Kind: publisher.FateTopic, Name: "t"}]
	now = now.Add(time.Hour)
	waits := d.Trials(10, now)
	d.Begin()
	d.TakeTrials(waits, nil, false, now) // discarded
	d.Begin()
	d.Take(rowsOf("k", "u", 3), FromFeed, now)
	sent := d.batch(0, now)
	d.Answer(0, sent, []error{errRefused}, now)
	d.refusedWritten(Outcome{Refused: d.refuse, Effects: map[string]Effect{sent[0].Identity(): Written}}, now)
	d.Trials(10, now)
	if !h.halfOpen || !d.waits.full() {
		t.Fatal("not half-open and full")
	}
	d.Scanning()
	d.Begin()
	d.Take(keyless(rowsOf("row", "t", 2)), fromScan, now)
	d.Scanned(now)
	if d.waits.byKey[sent[0].Hash] == nil {
		t.Fatal("k does not wait")
	}
	if !d.ScanWanted() && h.low == nothing && len(d.inFlight) == 0 {
		t.Errorf("row-2 is forgotten, hold %v", d.holds.has(h))
	}
}
