package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// scanOf makes the tail scan, which has begun again, and a catch-up scan take these rows and end there. The tail scan must not wait for
// keys that wait for it.
func (d *Dispatch) scanOf(t *testing.T, rows []outbox.Row, now time.Time) {
	t.Helper()
	d.Begin()
	d.Take(rows, FromFeed, now)
	d.Scanning()
	d.Begin()
	d.TakeScan(page(rows), now)
	if again := d.Scanned(now); again > 0 {
		t.Errorf("the tail scan waits for the scans of %d keys, which wait for it", again)
	}
}

// A row's failure is being written when a page with an older row of its key is not taken, and the tail scan begins again. The failure
// cannot be written, and the row is tried again: after the older one, wherever a catch-up scan has ended meanwhile.
func TestFailingRowWaitsForTheTailScanThatBeginsAgain(t *testing.T) {
	for name, meanwhile := range map[string]func(*testing.T, *Dispatch, time.Time){
		"nothing is read meanwhile": func(*testing.T, *Dispatch, time.Time) {},
		"a scan ends before it":     func(t *testing.T, d *Dispatch, now time.Time) { d.scanOf(t, rowsOf("other", "t", 2), now) },
	} {
		t.Run(name, func(t *testing.T) {
			d, now := testDispatch(t), time.Now()
			sent := handedOver(d, rowsOf("k", "t", 9), now)
			d.Answer(0, sent, []error{publisher.PermanentError("no", "no")}, now)
			d.Decline(rowsOf("k", "t", 3), now)
			d.Whole()
			meanwhile(t, d, now)
			d.refusedWritten(Outcome{Refused: d.refuse, Effects: map[string]Effect{sent[0].Identity(): Unwritable}}, now)
			if waits := d.Trials(10, now.Add(time.Hour)); len(waits) != 0 {
				t.Errorf("%d heads are tried before the tail scan has come by row 3", len(waits))
			}
		})
	}
}

// A row's failure is being written while its shard is not relayed for a moment, and an older row that was queued is forgotten. The
// failure cannot be written, and the row is tried again after the older one.
func TestFailingRowOfAShardThatCameBack(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	sent := handedOver(d, rowsOf("k", "t", 9), now)
	d.Take(rowsOf("k", "t", 3), FromFeed, now)
	d.Answer(0, sent, []error{publisher.PermanentError("no", "no")}, now)
	d.own(owner.Set{})
	d.own(owner.All(1))
	d.Whole()
	d.refusedWritten(Outcome{Refused: d.refuse, Effects: map[string]Effect{sent[0].Identity(): Unwritable}}, now)
	if waits := d.Trials(10, now.Add(time.Hour)); len(waits) != 0 {
		t.Errorf("%q is tried before k-3", waits[0].headID)
	}
}

// crowded returns a dispatch in which k-9 is on the wire, and k waits in a crowd whose time is over, since k-6 was passed over.
func crowded(t *testing.T, now time.Time) (d *Dispatch, sent []*Row) {
	t.Helper()
	d = testDispatch(t)
	d.waits.most = 1
	d.Take(rowsOf("x", "t", 1), FromFeed, now)
	published(t, d, errRefused, "x-1")
	refusalsWritten(d, now)
	d.Begin()
	sent = handedOver(d, rowsOf("k", "t", 9), now)
	d.Decline(rowsOf("k", "t", 6), now)
	d.Trials(0, now.Add(crowdRest))
	if d.waits.former == nil {
		t.Fatal("the crowd waits on")
	}
	return d, sent
}

// A row on the wire whose key waits in a crowd does not go before what was passed over, wherever a scan has ended meanwhile.
func TestRowOfACrowdDoesNotOvertakeAfterAShortScan(t *testing.T) {
	now := time.Now()
	d, sent := crowded(t, now)
	d.Whole()
	d.scanOf(t, rowsOf("other", "t", 2), now)
	d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
	published(t, d, nil, "other-2")
	published(t, d, nil, "")
}

// Nor does it when it is refused or held while the scan for the crowd is on its way, and there is room again to remember its key by
// itself.
func TestHeadOfACrowdGoesAfterWhatTheScanBrings(t *testing.T) {
	for name, answer := range map[string]error{"refused": errRefused, "held": errNoTopic} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			d, sent := crowded(t, now)
			d.waits.most = 2
			d.Begin()
			d.Scanning()
			d.Answer(0, sent, []error{answer}, now)
			refusalsWritten(d, now)
			for _, w := range d.Trials(10, now.Add(time.Hour)) {
				if w.headID == "k-9" {
					t.Error("k-9 is tried before the scan has brought k-6")
				}
			}
		})
	}
}

// A row comes back from the broker while a scan that began at the very beginning is among rows without an order value, or has ended there.
// It does not go before one that was passed over.
func TestRowComesBackWhileAScanIsAtRowsWithoutAnOrderValue(t *testing.T) {
	for name, ends := range map[string]bool{"it goes on": false, "it ends": true} {
		t.Run(name, func(t *testing.T) {
			d, now := testDispatch(t), time.Now()
			sent := handedOver(d, rowsOf("k", "t", 9), now)
			d.Decline(rowsOf("k", "t", 6), now)
			d.Whole()
			d.Scanning()
			d.Begin()
			first := rowsOf("other", "t", 1)
			first[0].Position = outbox.AtNull("other-1")
			if d.TakeScan(page(first), now); ends {
				d.Scanned(now)
			}
			d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
			published(t, d, nil, "other-1")
			published(t, d, nil, "")
		})
	}
}

// tiedOnTheWire returns a dispatch in which row b is on the wire, and row a of its key, with the same order value, was passed over. Only
// the database knows the order of their ids.
func tiedOnTheWire(t *testing.T, now time.Time) (d *Dispatch, sent []*Row) {
	t.Helper()
	d = testDispatch(t)
	d.textIDs()
	sent = handedOver(d, []outbox.Row{tied(7, "b", "t")}, now)
	d.Decline([]outbox.Row{tied(7, "a", "t")}, now)
	return d, sent
}

// Likewise where a scan is among rows with equal order values whose order is not known: it brings both before either goes on.
func TestRowComesBackWhileAScanIsAmongEqualOrderValues(t *testing.T) {
	now := time.Now()
	d, sent := tiedOnTheWire(t, now)
	d.Scanning()
	d.Begin()
	other := rowsOf("other", "t", 7)
	other[0].Position = outbox.At(7, "0")
	d.TakeScan(page(other), now)
	d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
	published(t, d, nil, "0")
	both := []outbox.Row{tied(7, "a", "t"), tied(7, "b", "t")}
	d.Begin()
	d.TakeScan(page(both), now)
	published(t, d, nil, "") // the rest is left to the next scan
	d.Scanned(now)
	d.Scanning()
	d.Begin()
	d.TakeScan(page(both), now)
	d.Scanned(now)
	published(t, d, nil, "a")
	published(t, d, nil, "b")
	if n := len(d.waits.catching); n > 0 {
		t.Errorf("%d keys are still closed", n)
	}
}

// A row that a scan has brought is not brought once more, although the order between it and the scan's last row is not known.
func TestBroughtRowStaysQueuedAmongEqualOrderValues(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.textIDs()
	d.Take([]outbox.Row{tied(5, "0", "gone")}, FromFeed, now)
	published(t, d, errNoTopic, "0")
	d.Begin()
	d.Take([]outbox.Row{tied(7, "a", "t")}, FromFeed, now)
	waits := d.Trials(10, now.Add(time.Hour))
	d.Begin()
	d.TakeTrials(waits, nil, false, now) // the head is gone, and what was passed over goes on
	d.Scanning()
	d.Begin()
	other := rowsOf("other", "t", 7)
	d.TakeScan(page([]outbox.Row{tied(7, "a", "t"), other[0]}), now)
	d.Take([]outbox.Row{tied(9, "c", "t")}, FromFeed, now) // waits: what is queued is gone through
	published(t, d, nil, "a")
}

// A key has several rows with one order value and text ids, as one transaction gives them. While a scan is to bring them, another read
// passes one of them over, and the next scan reads them in two pages while they are queued.
func TestQueuedRowsWithOneOrderValueGiveWayTogether(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.textIDs()
	x, y, a, b, c := tied(5, "x", "t"), tied(6, "y", "t"), tied(7, "a", "t"), tied(7, "b", "t"), tied(7, "c", "t")
	feed := func(rows ...outbox.Row) {
		d.Begin()
		d.Take(rows, FromFeed, now)
	}
	scan := func(rows ...outbox.Row) {
		d.Begin()
		d.TakeScan(page(rows), now)
	}
	var sent []string
	answer := func(rows []*Row) {
		for _, r := range rows {
			if r.Message.Topic == "t" && !slices.Contains(sent, r.ID()) {
				sent = append(sent, r.ID())
			}
		}
		d.Answer(0, rows, make([]error, len(rows)), now)
	}
	wire := handedOver(d, []outbox.Row{x}, now)
	d.Decline([]outbox.Row{y}, now)
	d.Scanning()
	feed(a)
	scan(y, a, b, c)
	d.Scanned(now)
	d.Scanning()
	scan(a, b)
	answer(wire)
	answer(d.batch(0, now))
	feed(rowsOf("other", "elsewhere", 8)...)
	wire = d.batch(0, now)
	feed()
	scan(c)
	d.Scanned(now)
	d.Scanning()
	scan(a, b)
	scan(c, rowsOf("other", "elsewhere", 9)[0])
	answer(wire)
	for range 10 {
		for rows := d.batch(0, now); rows != nil; rows = d.batch(0, now) {
			answer(rows)
		}
		if d.catch.under {
			d.Scanned(now)
		}
		if !d.ScanWanted() {
			break
		}
		d.Scanning()
		scan(a, b, c)
	}
	if want := []string{"x", "y", "a", "b", "c"}; !slices.Equal(sent, want) {
		t.Errorf("the rows go as %q, want %q", sent, want)
	}
}

// A row with text ids comes back although a scan has brought one with its order value before it, which still is queued.
func TestRowComesBackAfterAScanOfEqualOrderValues(t *testing.T) {
	for name, ends := range map[string]bool{"the scan goes on": false, "it ends": true} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			d, sent := tiedOnTheWire(t, now)
			d.Scanning()
			d.Begin()
			if d.TakeScan(page([]outbox.Row{tied(7, "a", "t"), tied(7, "b", "t")}), now); ends {
				d.Scanned(now)
			}
			d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
			published(t, d, nil, "a")
			published(t, d, nil, "b")
		})
	}
}

// A row is on the wire for long, among equal order values at the end of the table. One scan that has come by it is enough.
func TestScanIsNotRepeatedForARowOnTheWire(t *testing.T) {
	now := time.Now()
	d, _ := tiedOnTheWire(t, now)
	other := rowsOf("other", "t", 7)[0]
	scans := 0
	for ; d.ScanWanted() && scans < 100; scans++ {
		d.Scanning()
		d.Begin()
		d.TakeScan(page([]outbox.Row{tied(7, "a", "t"), tied(7, "b", "t"), other}), now)
		d.Scanned(now)
	}
	if scans > 2 {
		t.Errorf("%d scans", scans)
	}
}

// Two keys of a crowd have rows on the wire that lie beyond the end of a short scan. One comes back before the scan ends, so that the crowd
// has something for the next scan. The other one still goes after what was passed over of its key.
func TestCrowdRemembersWhatLiesBeyondAShortScan(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.lanes = append(d.lanes, lane{queue: queue{before: d.Table.Before}}) // two workers
	nameFor := func(worker uint64) string {                               // of a key of that worker
		for i := 0; ; i++ {
			if k := (key{text: fmt.Sprint("key", i)}); k.Hash()%2 == worker {
				return k.text
			}
		}
	}
	first, second := nameFor(0), nameFor(1)
	d.waits.most = 0
	d.Take(append(rowsOf(first, "t", 9), rowsOf(second, "t", 20)...), FromFeed, now)
	sent, sentToo := d.batch(0, now), d.batch(1, now)
	d.Begin()
	d.Decline(append(rowsOf(first, "t", 6), rowsOf(second, "t", 15)...), now)
	d.Trials(0, now.Add(crowdRest))
	d.Whole()
	other := rowsOf(nameFor(1)+"other", "t", 2)
	d.Begin()
	d.Take(other, FromFeed, now)
	d.Scanning()
	d.Answer(1, sentToo, []error{publisher.ErrNotAttempted}, now)
	d.Begin()
	d.TakeScan(page(other), now)
	d.Scanned(now)
	d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
	for _, r := range d.batch(0, now) {
		if r.Position.Ordinal == 9 {
			t.Error("row 9 goes before row 6")
		}
	}
}
