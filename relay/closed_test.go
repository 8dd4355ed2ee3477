package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// rowsOf returns rows of a key in a topic, with these ordinals; the id of each is the key and its ordinal.
func rowsOf(key, topic string, ordinals ...int64) []outbox.Row {
	var rows []outbox.Row
	for _, n := range ordinals {
		id := fmt.Sprintf("%s-%d", key, n)
		rows = append(rows, outbox.Row{Message: publisher.Message{ID: id, Topic: topic, Key: []byte(key)}, Position: outbox.At(n, id), Attempt: 1})
	}
	return rows
}

// beyond says that the rows were committed after their read had begun.
func beyond(rows []outbox.Row) []outbox.Row {
	for i := range rows {
		rows[i].Beyond = true
	}
	return rows
}

// publishNext gives the next row of the only worker this answer, and returns the row's id, "" if there is none.
func publishNext(d *dispatch, answer error) string {
	rows := d.batch(0, time.Now())
	if len(rows) == 0 {
		return ""
	}
	d.answer(0, rows, []error{answer}, time.Now())
	return rows[0].ID()
}

func published(t *testing.T, d *dispatch, answer error, want string) {
	t.Helper()
	if got := publishNext(d, answer); got != want {
		t.Errorf("the next row is %q, want %q", got, want)
	}
}

var errRefused = publisher.RefusedError("no", "no")

// A row that was committed late goes before the head of its key, which was refused. When it is refused as well, another late row
// that is queued between the two waits, and both refusals are written before the key goes on, from the oldest row on.
func TestQueuedRowWaitsForTheOldestHead(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.take(rowsOf("k", "t", 10), fromWalk, now)
	published(t, d, errRefused, "k-10")
	d.take(rowsOf("k", "t", 3, 5), fromWalk, now)
	published(t, d, errRefused, "k-3")
	published(t, d, nil, "")
	for i, x := range d.refuse {
		if d.catch.low != nothing {
			t.Errorf("the key goes on when %d of two refusals have been written", i)
		}
		d.refusedWritten(outcome{refused: []refusal{x}, written: map[string]bool{x.row.Identity(): true}}, now)
	}
	if d.catch.low != 3 {
		t.Errorf("the scan begins at %d", d.catch.low)
	}
}

// A head is not tried while another row of its key is on the wire, one that was committed late and goes before it.
func TestHeadIsTriedAlone(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.take(rowsOf("k", "t", 10), fromWalk, now)
	published(t, d, errRefused, "k-10")
	d.refusedWritten(outcome{refused: d.refuse, written: map[string]bool{d.refuse[0].row.Identity(): true}}, now)
	d.begin()
	d.take(rowsOf("k", "t", 5), fromWalk, now)
	older := d.batch(0, now)
	now = now.Add(time.Hour)
	if rows := try(t, d, now, rowsOf("k", "t", 10)); len(older) != 1 || len(rows) != 0 {
		t.Errorf("%d rows try beside %d on the wire", len(rows), len(older))
	}
	if waits := d.trials(10, now); len(waits) != 0 {
		t.Errorf("%d heads are read again at once", len(waits))
	}
	d.answer(0, older, []error{nil}, now)
	if rows := try(t, d, now.Add(time.Second), rowsOf("k", "t", 10)); len(rows) != 1 {
		t.Errorf("%d rows try afterwards", len(rows))
	}
}

// A row that is seen in a page that is not taken is not overtaken by what is queued, nor, after the scan has brought it, by what the
// scan has brought too, when the walk leaves out a row between the two. The next walk takes that one first, even if a scan came to
// its end before it.
func TestNothingGoesBeforeARowThatWasSeen(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.take(rowsOf("k", "t", 4, 9), fromWalk, now)
	d.decline(rowsOf("k", "t", 6), now)
	published(t, d, nil, "k-4")
	published(t, d, nil, "")
	if low, _ := d.scanning(); low != 6 {
		t.Fatalf("the scan begins at %d", low)
	}
	d.begin()
	d.take(rowsOf("k", "t", 6, 9), fromScan, now)
	d.begin()
	d.take(beyond(rowsOf("k", "t", 7)), fromWalk, now)
	published(t, d, nil, "k-6")
	published(t, d, nil, "")
	d.scanned(now)
	if low, _ := d.scanning(); low != 7 {
		t.Errorf("the next scan begins at %d", low)
	}
	d.scanned(now)
	d.begin()
	d.take(rowsOf("k", "t", 9), fromWalk, now)
	published(t, d, nil, "")
}

// A scan brings nothing of a key from the first row on that was committed after it began, not even what has the same order value.
func TestScanEndsForAKeyAtWhatItLeavesOut(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.take(rowsOf("k", "t", 1, 9), fromWalk, now)
	d.decline(rowsOf("k", "t", 6), now)
	published(t, d, nil, "k-1")
	d.scanning()
	d.begin()
	page := append(rowsOf("k", "t", 6), beyond(rowsOf("k", "t", 7))...)
	same := rowsOf("k", "t", 7)
	same[0].Message.ID, same[0].Position = "k-7b", outbox.At(7, "k-7b")
	d.take(append(append(page, same...), rowsOf("k", "t", 9)...), fromScan, now)
	published(t, d, nil, "k-6")
	published(t, d, nil, "")
}

// The scan after one that was given up brings what that one was to bring, of rows without a key, too.
func TestScanThatIsGivenUpIsMadeAgain(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.take(rowsOf("k", "t", 5, 9), fromWalk, now)
	d.decline(rowsOf("k", "t", 7), now)
	d.scanning()
	d.abandonScan(7)
	if low, _ := d.scanning(); low != 7 {
		t.Errorf("the key's next scan begins at %d", low)
	}
	d.begin()
	if taken, _ := d.take(rowsOf("k", "t", 7, 9), fromScan, now); taken != 2 {
		t.Errorf("the next scan brings %d rows", taken)
	}
	d.scanned(now)
	d.catch.wantOthers(3)
	from, _ := d.scanning()
	d.abandonScan(from)
	if low, _ := d.scanning(); low != 3 {
		t.Errorf("the next scan begins at %d", low)
	}
}

// The rows of a few keys alone are read only where the scan has nothing else to bring.
func TestScanOfFewKeys(t *testing.T) {
	for others, want := range map[bool]int{false: 1, true: 0} {
		d, now := testDispatch(t), time.Now()
		d.table.(*simTable).byKey = true
		d.take(rowsOf("k", "t", 5, 9), fromWalk, now)
		d.decline(rowsOf("k", "t", 7), now)
		if others {
			d.catch.wantOthers(3)
		}
		if _, keys := d.scanning(); len(keys) != want {
			t.Errorf("with others %v it reads the keys %q", others, keys)
		}
	}
}

// When it is found out that a key has a failed row, what is queued of the key is not published, and what is read of it not taken.
func TestQueuedRowsOfAFailedKey(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.take(rowsOf("k", "t", 5), fromWalk, now)
	d.failures = &failures{}
	d.failures.known.add("k", 1)
	published(t, d, nil, "")
	if taken, _ := d.take(rowsOf("k", "t", 6), fromWalk, now); taken != 0 || len(d.inFlight) != 0 {
		t.Errorf("%d rows are taken, %d in flight", taken, len(d.inFlight))
	}
}

// When keys come free that are not known one by one, the walk begins anew: it must not meet their younger rows first.
func TestKeysWithoutNamesComeFree(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.rewound()
	d.failures = &failures{}
	d.failures.known.more.Add(key{text: "k"}.hash())
	if freed := d.takeFailed(outbox.FailedPage{}, true, now, now); !freed || !d.rewound() {
		t.Error("the walk goes on")
	}
}

// A row of a key that waits is passed over before its head: it was in a page that was not taken, or it has failed before and is free
// now, or it came while the head was on the wire and could not be published. The head is not tried before a scan has brought that row.
func TestHeadWaitsForWhatLiesBeforeIt(t *testing.T) {
	resting := func() *dispatch {
		d, now := testDispatch(t), time.Now()
		d.take(rowsOf("k", "t", 10), fromWalk, now)
		published(t, d, errRefused, "k-10")
		d.refusedWritten(outcome{refused: d.refuse, written: map[string]bool{d.refuse[0].row.Identity(): true}}, now)
		d.begin()
		return d
	}
	for name, pass := range map[string]func(*testing.T, *dispatch, time.Time){
		"declined": func(_ *testing.T, d *dispatch, now time.Time) {
			d.take(rowsOf("k", "t", 5), fromWalk, now)
			d.begin()
			d.decline(rowsOf("k", "t", 3), now)
		},
		"failed once": func(_ *testing.T, d *dispatch, now time.Time) {
			d.failures = &failures{}
			d.failures.known.add("k", 3)
			d.takeFailed(outbox.FailedPage{}, true, now, now)
		},
		"on the wire": func(t *testing.T, d *dispatch, now time.Time) {
			rows := try(t, d, now.Add(time.Minute), rowsOf("k", "t", 10))
			d.begin()
			d.take(rowsOf("k", "t", 3), fromWalk, now)
			d.answer(d.workers(), rows, []error{publisher.ErrNotAttempted}, now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, now := resting(), time.Now()
			pass(t, d, now)
			if waits := d.trials(10, now.Add(time.Hour)); len(waits) != 0 || d.catch.low != 3 {
				t.Errorf("%d heads are tried, and a scan begins at %d", len(waits), d.catch.low)
			}
			published(t, d, nil, "")
		})
	}
}
