package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// rowsOf returns rows of a key in a topic, with these ordinals. The id of each row is the key and its ordinal.
func rowsOf(key, topic string, ordinals ...int64) []outbox.Row {
	var rows []outbox.Row
	for _, n := range ordinals {
		id := fmt.Sprintf("%s-%d", key, n)
		rows = append(rows, outbox.Row{
			Message:  publisher.Message{ID: id, Topic: topic, Key: []byte(key)},
			Position: outbox.At(n, id), Attempt: 1,
		})
	}
	return rows
}

// beyond marks the rows as committed after their read had begun.
func beyond(rows []outbox.Row) []outbox.Row {
	for i := range rows {
		rows[i].Beyond = true
	}
	return rows
}

// publishNext gives the answer to the next row of the only worker, and returns the row's id, or "" if there is no row.
func publishNext(d *Dispatch, answer error) string {
	rows := d.batch(0, time.Now())
	if len(rows) == 0 {
		return ""
	}
	d.Answer(0, rows, []error{answer}, time.Now())
	return rows[0].ID()
}

func published(t *testing.T, d *Dispatch, answer error, want string) {
	t.Helper()
	if got := publishNext(d, answer); got != want {
		t.Errorf("the next row is %q, want %q", got, want)
	}
}

// handedOver takes the rows of a read and hands over the first batch. Another read begins.
func handedOver(d *Dispatch, rows []outbox.Row, now time.Time) (sent []*Row) {
	d.Take(rows, FromFeed, now)
	sent = d.batch(0, now)
	d.Begin()
	return sent
}

var errRefused = publisher.RefusedError("no", "no")

// A row that was committed late goes before the head of its key, which was refused. When the late row is refused as
// well, another late row is queued that belongs between the two. It waits, and both refusals are written before the key
// goes on, beginning with the oldest row.
func TestQueuedRowWaitsForTheOldestHead(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(rowsOf("k", "t", 10), FromFeed, now)
	published(t, d, errRefused, "k-10")
	d.Take(rowsOf("k", "t", 3, 5), FromFeed, now)
	published(t, d, errRefused, "k-3")
	published(t, d, nil, "")
	for i, x := range d.refuse {
		if d.catch.low != nothing {
			t.Errorf("the key goes on when %d of two refusals have been written", i)
		}
		d.refusedWritten(Outcome{Refused: []Refusal{x}, Effects: map[string]Effect{x.Row.Identity(): Written}}, now)
	}
	if d.catch.low != 3 {
		t.Errorf("the scan begins at %d", d.catch.low)
	}
}

// A head is not tried while an older row of its key, which was committed late, is on the wire.
func TestHeadIsTriedAlone(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(rowsOf("k", "t", 10), FromFeed, now)
	published(t, d, errRefused, "k-10")
	d.refusedWritten(Outcome{Refused: d.refuse, Effects: map[string]Effect{d.refuse[0].Row.Identity(): Written}}, now)
	d.Begin()
	d.Take(rowsOf("k", "t", 5), FromFeed, now)
	older := d.batch(0, now)
	now = now.Add(time.Hour)
	if rows := try(t, d, now, rowsOf("k", "t", 10)); len(older) != 1 || len(rows) != 0 {
		t.Errorf("%d rows try beside %d on the wire", len(rows), len(older))
	}
	if waits := d.Trials(10, now); len(waits) != 0 {
		t.Errorf("%d heads are read again at once", len(waits))
	}
	d.Answer(0, older, []error{nil}, now)
	if rows := try(t, d, now.Add(time.Second), rowsOf("k", "t", 10)); len(rows) != 1 {
		t.Errorf("%d rows try afterwards", len(rows))
	}
}

// A page that is not taken contains a row. Queued rows do not overtake it. Nor do rows that a scan brings together with
// it, when the tail scan leaves out a row between them. The next tail scan takes the row that was left out first, even if a catch-up scan
// reached its end before that.
func TestNothingGoesBeforeARowThatWasSeen(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(rowsOf("k", "t", 4, 9), FromFeed, now)
	d.Decline(rowsOf("k", "t", 6), now)
	published(t, d, nil, "k-4")
	published(t, d, nil, "")
	if low := d.Scanning(); low != 6 {
		t.Fatalf("the scan begins at %d", low)
	}
	d.Begin()
	d.TakeScan(page(rowsOf("k", "t", 6, 9)), now)
	d.Begin()
	d.Take(beyond(rowsOf("k", "t", 7)), FromFeed, now)
	published(t, d, nil, "k-6")
	published(t, d, nil, "")
	d.Scanned(now)
	if low := d.Scanning(); low != 7 {
		t.Errorf("the next scan begins at %d", low)
	}
	d.Scanned(now)
	d.Begin()
	d.Take(rowsOf("k", "t", 9), FromFeed, now)
	published(t, d, nil, "")
}

// If a row of a key was committed after a scan began, the scan brings no row of the key from there on, not even with
// the same order value.
func TestScanEndsForAKeyAtWhatItLeavesOut(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(rowsOf("k", "t", 1, 9), FromFeed, now)
	d.Decline(rowsOf("k", "t", 6), now)
	published(t, d, nil, "k-1")
	d.Scanning()
	d.Begin()
	rows := append(rowsOf("k", "t", 6), beyond(rowsOf("k", "t", 7))...)
	same := rowsOf("k", "t", 7)
	same[0].Message.ID, same[0].Position = "k-7b", outbox.At(7, "k-7b")
	d.TakeScan(page(append(append(rows, same...), rowsOf("k", "t", 9)...)), now)
	published(t, d, nil, "k-6")
	published(t, d, nil, "")
}

// The scan after one that was given up brings what that one was to bring, including rows without a key.
func TestScanThatIsGivenUpIsMadeAgain(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(rowsOf("k", "t", 5, 9), FromFeed, now)
	d.Decline(rowsOf("k", "t", 7), now)
	d.Scanning()
	d.AbandonScan(7)
	if low := d.Scanning(); low != 7 {
		t.Errorf("the key's next scan begins at %d", low)
	}
	d.Begin()
	if taken, _ := d.Take(rowsOf("k", "t", 7, 9), fromScan, now); taken != 2 {
		t.Errorf("the next scan brings %d rows", taken)
	}
	d.Scanned(now)
	d.catch.want(andKeyless, 3)
	from := d.Scanning()
	d.AbandonScan(from)
	if low := d.Scanning(); low != 3 || d.catch.extent != andKeyless {
		t.Errorf("the next scan begins at %d and brings %d", low, d.catch.extent)
	}
}

// When a key turns out to have a failed row, its queued rows are not published, and rows of it that are read are not
// taken.
func TestQueuedRowsOfAFailedKey(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(rowsOf("k", "t", 5), FromFeed, now)
	d.Failures = &failures{}
	d.Failures.known.add("k", 1)
	published(t, d, nil, "")
	if taken, _ := d.Take(rowsOf("k", "t", 6), FromFeed, now); taken != 0 || len(d.inFlight) != 0 {
		t.Errorf("%d rows are taken, %d in flight", taken, len(d.inFlight))
	}
}

// A tail scan passes over a row of a key with a failed row, and the row was committed after the tail scan had begun. When
// the key is free again, a catch-up scan may end before the row. Younger rows that the tail scan comes to later must not
// go before it.
func TestRowsBeyondOfAFailedKeyAreNotOvertaken(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Failures = &failures{}
	d.Failures.known.add("k", 1)
	d.Take(beyond(rowsOf("k", "t", 5)), FromFeed, now)
	d.TakeFailed(outbox.FailedPage{}, true, now, now)
	d.Scanning()
	d.Scanned(now) // the catch-up scan went as far as the tail scan had seen rows that are not beyond
	d.Begin()
	if taken, _ := d.Take(rowsOf("k", "t", 9), FromFeed, now); taken != 0 {
		t.Errorf("%d younger rows are taken", taken)
	}
}

// When a key turns out to have a failed row, its head may be queued for a trial. The head is not published, and a scan
// brings it when the key is free again.
func TestQueuedTrialOfAFailedKey(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(rowsOf("k", "t", 10), FromFeed, now)
	published(t, d, errRefused, "k-10")
	d.refusedWritten(Outcome{Refused: d.refuse, Effects: map[string]Effect{d.refuse[0].Row.Identity(): Written}}, now)
	waits := d.Trials(10, now.Add(time.Hour))
	d.Begin()
	if taken := d.TakeTrials(waits, rowsOf("k", "t", 10), false, now); taken != 1 {
		t.Fatalf("%d heads are taken", taken)
	}
	d.Failures = &failures{}
	d.Failures.known.add("k", 10)
	if rows := d.batch(d.workers(), now); len(rows) != 0 || len(d.waits.byKey) != 0 || len(d.inFlight) != 0 {
		t.Errorf("%d rows are published; the key waits as %v", len(rows), d.waits.byKey)
	}
	d.TakeFailed(outbox.FailedPage{}, true, now, now)
	if d.catch.low != 10 {
		t.Errorf("a scan begins at %d", d.catch.low)
	}
}

// A key goes on when another session has relayed or discarded its head: a scan brings the rows that were passed over, and
// without such rows the key is forgotten.
func TestKeyGoesOnWhenItsHeadIsGone(t *testing.T) {
	for name, passed := range map[string]bool{"rows were passed over": true, "no row was": false} {
		t.Run(name, func(t *testing.T) {
			d, now := testDispatch(t), time.Now()
			d.Take(rowsOf("k", "t", 10), FromFeed, now)
			published(t, d, errRefused, "k-10")
			d.refusedWritten(Outcome{Refused: d.refuse, Effects: map[string]Effect{d.refuse[0].Row.Identity(): Written}}, now)
			if passed {
				d.Begin()
				d.Take(rowsOf("k", "t", 11), FromFeed, now)
			}
			waits := d.Trials(10, now.Add(time.Hour))
			d.Begin()
			d.TakeTrials(waits, nil, false, now)
			if len(d.waits.byKey) > 0 != passed || passed && (waits[0].state != catching || d.catch.low > 11) {
				t.Errorf("%d keys wait, in state %d; a scan begins at %d", len(d.waits.byKey), waits[0].state, d.catch.low)
			}
		})
	}
}

// A head that was read and may not go, since its key turns out to have a failed row, is not asked for again at once: where there
// is no room for all heads, it would take the room of the others again and again.
func TestHeadOfAFailedKeyLeavesRoomForOthers(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	for _, key := range []string{"k", "l"} {
		d.Take(rowsOf(key, "t", 10), FromFeed, now)
		published(t, d, errRefused, key+"-10")
	}
	for _, x := range slices.Clone(d.refuse) {
		d.refusedWritten(Outcome{Refused: []Refusal{x}, Effects: map[string]Effect{x.Row.Identity(): Written}}, now)
	}
	d.Failures = &failures{}
	d.Failures.known.add("k", 5)
	now = now.Add(time.Hour)
	waits := d.Trials(10, now)
	if len(waits) != 2 {
		t.Fatalf("%d heads are asked for", len(waits))
	}
	d.Begin()
	d.TakeTrials(waits, rowsOf("k", "t", 10), true, now)
	if waits := d.Trials(10, now); len(waits) != 1 || waits[0].Head() != "l-10" {
		t.Errorf("%d heads are asked for, of them %v first", len(waits), waits[0].Head())
	}
}

// When keys become free that are not known one by one, the tail scan begins again: it must not meet their younger rows
// first.
func TestKeysWithoutNamesComeFree(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Rewound()
	d.Failures = &failures{}
	d.Failures.known.more.Add(key{text: "k"}.Hash())
	if d.TakeFailed(outbox.FailedPage{}, true, now, now); !d.Rewound() {
		t.Error("the tail scan goes on")
	}
}

// A row of a waiting key is passed over before the key's head: it was in a page that was not taken, or it failed before
// and is free now, or it came while the head was on the wire and could not be published. The head is not tried before a
// scan has brought that row.
func TestHeadWaitsForWhatLiesBeforeIt(t *testing.T) {
	resting := func() *Dispatch {
		d, now := testDispatch(t), time.Now()
		d.Take(rowsOf("k", "t", 10), FromFeed, now)
		published(t, d, errRefused, "k-10")
		d.refusedWritten(Outcome{Refused: d.refuse, Effects: map[string]Effect{d.refuse[0].Row.Identity(): Written}}, now)
		d.Begin()
		return d
	}
	for name, pass := range map[string]func(*testing.T, *Dispatch, time.Time){
		"declined": func(_ *testing.T, d *Dispatch, now time.Time) {
			d.Take(rowsOf("k", "t", 5), FromFeed, now)
			d.Begin()
			d.Decline(rowsOf("k", "t", 3), now)
		},
		"declined while it rests": func(_ *testing.T, d *Dispatch, now time.Time) { d.Decline(rowsOf("k", "t", 3), now) },
		"failed once": func(_ *testing.T, d *Dispatch, now time.Time) {
			d.Failures = &failures{}
			d.Failures.known.add("k", 3)
			d.TakeFailed(outbox.FailedPage{}, true, now, now)
		},
		"on the wire": func(t *testing.T, d *Dispatch, now time.Time) {
			rows := try(t, d, now.Add(time.Minute), rowsOf("k", "t", 10))
			d.Begin()
			d.Take(rowsOf("k", "t", 3), FromFeed, now)
			d.Answer(d.workers(), rows, []error{publisher.ErrNotAttempted}, now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, now := resting(), time.Now()
			pass(t, d, now)
			if waits := d.Trials(10, now.Add(time.Hour)); len(waits) != 0 || d.catch.low != 3 {
				t.Errorf("%d heads are tried, and a scan begins at %d", len(waits), d.catch.low)
			}
			published(t, d, nil, "")
		})
	}
}

// A row's failure is being written when a page with an older row of its key is not taken. The failure cannot be written, and the row is
// tried again: after the older one.
func TestFailingRowGoesAfterADeclinedOne(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	sent := handedOver(d, rowsOf("k", "t", 9), now)
	d.Answer(0, sent, []error{publisher.PermanentError("no", "no")}, now)
	d.Decline(rowsOf("k", "t", 3), now)
	d.refusedWritten(Outcome{Refused: d.refuse, Effects: map[string]Effect{sent[0].Identity(): Unwritable}}, now)
	if waits := d.Trials(10, now.Add(time.Hour)); len(waits) != 0 || d.catch.low != 3 {
		t.Errorf("%d heads are tried, and a scan begins at %d", len(waits), d.catch.low)
	}
}

// A head that rests is read and declined while a row before it is on the wire. It rests on.
func TestDeclinedHeadRestsOn(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	a, b := tied(7, "a", "t"), tied(8, "b", "t")
	d.Take([]outbox.Row{b}, FromFeed, now)
	published(t, d, errRefused, "b")
	refusalsWritten(d, now)
	d.Begin()
	sent := handedOver(d, []outbox.Row{a}, now)
	d.Decline([]outbox.Row{a, b}, now)
	if w := d.waits.of(sent[0].Hash); w.state != resting {
		t.Errorf("the head no longer rests: %v", w)
	}
}
