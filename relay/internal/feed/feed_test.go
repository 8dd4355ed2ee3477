package feed

import (
	"math"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// fullPage returns a page of rows with these ordinals, after which there are more rows.
func fullPage(ordinals ...int64) outbox.Page {
	rows := rowsAt(ordinals...)
	return outbox.Page{Rows: rows, End: rows[len(rows)-1].Position, More: true}
}

// A reconciliation scan takes no row that the tail scan has yet to reach, so that it neither does the tail scan's work nor overtakes it.
func TestReconciliationScanEndsWhereTheTailScanHasBeen(t *testing.T) {
	now := time.Now()
	f := New(&order{}, 10, 100, time.Second, 0, now)
	f.Read(Tail, fullPage(3, 5), now, now)
	f.reconciliation.under, f.reconciliation.tailReads = true, tailReadsPerPage
	if q, kind, ok := f.Next(now, 100, 1<<20); !ok || kind != Reconcile || q.Upto == nil || *q.Upto != 5 {
		t.Errorf("the reconciliation scan reads %+v, want a read that ends before the tail scan's last row", q)
	}
}

// With priorities, the tail scan makes progress even if each read takes longer than the time between polls, and the first
// page is read meanwhile. Otherwise held rows at the beginning would hide all others.
func TestTailScanWithPrioritiesGetsOn(t *testing.T) {
	now := time.Now()
	table := &order{}
	table.ranked = true
	f := New(table, 2, 100, 50*time.Millisecond, 0, now)
	var pages, heads int
	for i := int64(1); i <= 20; i++ {
		q, kind, ok := f.Next(now, 100, 1<<20)
		if !ok {
			t.Fatal("nothing to read")
		}
		now = now.Add(time.Second)
		switch kind {
		case Head:
			heads++
			if !q.After.IsZero() {
				t.Error("not the first page")
			}
			f.Read(kind, fullPage(1, 2), now, now)
		case Tail:
			if pages++; pages > 1 && q.After.Ordinal != int64(2*(pages-1)) {
				t.Fatalf("page %d is read after %d", pages, q.After.Ordinal)
			}
			f.Read(kind, fullPage(int64(2*pages-1), int64(2*pages)), now, now)
			f.plan(0, now, false)
		default:
			t.Errorf("read of kind %d", kind)
		}
	}
	if pages < 5 || heads < 5 {
		t.Errorf("%d pages of the tail scan and %d looks at the head", pages, heads)
	}
}

// Rows that are inserted during a tail scan are left to the next tail scan. It begins far enough back to meet older rows of the
// same keys that were committed before the place of the first tail scan.
func TestTailScanEndsWhereTheTableEndedWhenItBegan(t *testing.T) {
	now := time.Now()
	f := New(&order{}, 2, 100, time.Second, 0, now)
	f.reconciliation.due = now.Add(time.Hour)
	next := func(what string) outbox.Query {
		t.Helper()
		now = now.Add(time.Millisecond)
		q, kind, ok := f.Next(now, 100, 1<<20)
		if !ok || kind != Tail {
			t.Fatalf("%s: %+v, kind %d, %t", what, q, kind, ok)
		}
		return q
	}
	take := func(page outbox.Page) {
		f.Read(Tail, page, now, now)
		f.plan(len(page.Rows), now, false)
	}
	if q := next("the first page"); !q.Horizon || q.Within != nil {
		t.Errorf("the first page does not ask where the table ends: %+v", q)
	}
	page, highest := fullPage(1, 3), int64(6)
	page.Horizon = &outbox.Horizon{Highest: &highest}
	take(page)
	if q := next("the second page"); q.Within != page.Horizon || q.After.Ordinal != 3 {
		t.Errorf("the second page does not end there: %+v", q)
	}
	last := fullPage(5, 6)
	last.More = false
	take(last)
	if q := next("the next tail scan, at once"); !q.After.IsZero() || !q.Horizon {
		t.Errorf("the next tail scan goes on with %+v", q)
	}

	// Once it is known which places no late commit can reach, a poll reads from there, in a single page.
	take(outbox.Page{})
	now = now.Add(outbox.Late)
	f.Nudge()
	next("a poll")
	take(outbox.Page{})
	f.Nudge()
	if q := next("a later poll"); q.Recent == nil || q.Horizon {
		t.Errorf("it reads %+v", q)
	}
	take(outbox.Page{})
	left := rowsAt(2)
	f.Late.LeaveOut(7, left[0].Position.Ordinal, false) // as a reconciliation scan does
	f.Nudge()
	if q := next("after a row was left out"); q.Recent == nil || *q.Recent != 2 || !q.Horizon {
		t.Errorf("it reads %+v", q)
	}
	take(outbox.Page{})
	f.Nudge()
	if q := next("the one after that"); q.Recent == nil || *q.Recent == 2 {
		t.Errorf("it reads %+v", q)
	}
	take(fullPage(8, 9))
	if q := next("after a page that was full"); q.Recent == nil || !q.Horizon {
		t.Errorf("not a new tail scan: %+v", q)
	}
}

// What one tail scan leaves out is taken by the next one, with priorities too: it must not accumulate.
func TestNextTailScanTakesWhatWasLeftOut(t *testing.T) {
	for name, ranked := range map[string]bool{"in order": false, "with priorities": true} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			table := &order{}
			table.ranked = ranked
			f := New(table, 2, 100, time.Second, 0, now)
			left := rowsAt(2)
			const key = 7
			f.Late.LeaveOut(key, left[0].Position.Ordinal, false)
			f.Next(now, 100, 1<<20)
			f.Read(Tail, outbox.Page{}, now, now)
			if _, overtakes := f.Late.Overtakes(key, 3, false); overtakes {
				t.Error("the key is still remembered")
			}
		})
	}
}

// Reconciliation scans that find nothing become rare, sooner if they cost more. A reconciliation scan that finds a row
// makes them frequent again.
func TestReconciliationScansInVainBecomeRare(t *testing.T) {
	t.Parallel()
	const took = 60 * time.Millisecond
	reconcile := func(f *Feed, now time.Time, rows, fresh int) time.Duration {
		f.reconciliation.due, f.caughtUp, f.reconciliation.tailReads = now, true, 1
		if _, kind, ok := f.Next(now, 100, 1<<20); !ok || kind != Reconcile {
			t.Fatalf("reads %v, not the reconciliation scan", kind)
		}
		f.Read(Reconcile, outbox.Page{Rows: make([]outbox.Row, rows)}, now, now.Add(took))
		f.ReconciliationTaken(fresh, false, now.Add(took))
		return f.reconciliation.due.Sub(now.Add(took))
	}
	for name, delays := range map[string]bool{"rows can be found at once": false, "rows become due later": true} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			table := &order{}
			table.delays = delays
			f := New(table, 10, 100, time.Second, 0, now)
			waiting := reconcile(f, now, 20_000, 0)
			f = New(table, 10, 100, time.Second, 0, now)
			first := reconcile(f, now, 0, 0)
			var last time.Duration
			for range 100 {
				last = reconcile(f, now, 0, 0)
			}
			found := reconcile(f, now, 20_000, 1)
			rarest, with := longestReconcileRest, 20*time.Second
			if delays {
				rarest, with = reconcileRestShare*took, first
			}
			if first > reconcileEvery || last != rarest || found > first || waiting != with {
				t.Errorf("rests %v, then %v, %v after a find, and %v with rows that wait", first, last, found, waiting)
			}
		})
	}
}

// A tail scan from the very beginning has read what a reconciliation scan would read. If most of its rows must wait, the next one is as
// far away as after a reconciliation scan that has read them in vain.
func TestReconciliationScanRestsAfterATailScanOfEverything(t *testing.T) {
	for name, waiting := range map[string]int{"no row waits": 0, "rows wait": 10_000} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			f := New(&order{}, 10, 100, time.Second, 0, now)
			for _, more := range []bool{true, false} {
				if _, kind, ok := f.Next(now, 100, 1<<20); !ok || kind != Tail {
					t.Fatalf("reads %v, not the tail scan", kind)
				}
				page := fullPage(3, 5)
				page.Horizon, page.More = &outbox.Horizon{}, more
				f.Read(Tail, page, now, now)
				f.TailTaken(waiting, 0, waiting, time.Time{}, false, now)
			}
			if rest, want := f.reconciliation.due.Sub(now), max(reconcileEvery, RestAfter(2*waiting)); rest != want {
				t.Errorf("the first reconciliation scan begins after %v, want %v", rest, want)
			}
		})
	}
}

// A tail scan from the very beginning finds nothing, and the next one leaves out what it would have returned. As that is nothing, this
// one too brings all that catch-up scans were to bring: otherwise keys that began to wait in between would wait for the next row.
func TestTailScansOfAnEmptyTableAreWhole(t *testing.T) {
	now := time.Now()
	f := New(&order{}, 10, 100, time.Second, 0, now)
	for i := range 2 {
		q, kind, ok := f.Next(now, 100, 1<<20)
		if !ok || !f.Whole(kind, q) {
			t.Fatalf("tail scan %d: %+v", i+1, q)
		}
		f.Read(kind, outbox.Page{Snapshot: outbox.Snapshot{Oldest: 7, Next: 7, Unassigned: 7}}, now, now)
		f.TailTaken(0, 0, 0, time.Time{}, false, now)
		now = now.Add(time.Second)
	}
}

// So far only rows without an order value were read, or with the lowest one. The next tail scan leaves them out, so it does not bring what
// catch-up scans are to bring, and these can.
func TestTailScanThatLeavesOutTheFirstRowsIsNotWhole(t *testing.T) {
	for name, at := range map[string]outbox.Position{
		"without an order value": outbox.AtNull("1"), "with the lowest": outbox.At(math.MinInt64, "1"),
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			f := New(&order{}, 10, 100, time.Second, 0, now)
			q, kind, ok := f.Next(now, 100, 1<<20)
			if !ok || !f.Whole(kind, q) || f.Scannable() {
				t.Fatalf("the first read is not whole: %+v", q)
			}
			rows := rowsAt(1)
			rows[0].Position = at
			f.Read(kind, outbox.Page{Rows: rows, Snapshot: outbox.Snapshot{Oldest: 7, Next: 7, Unassigned: 7}}, now, now)
			f.TailTaken(1, 1, 0, time.Time{}, false, now)
			if q, kind, ok = f.Next(now.Add(time.Second), 100, 1<<20); !ok || q.Since == nil {
				t.Fatalf("the next read leaves out nothing: %+v", q)
			}
			if f.Whole(kind, q) || !f.Scannable() {
				t.Error("nothing brings what was passed over")
			}
		})
	}
}

// Rows without an order value are read by a reconciliation scan only, since recent reads leave them out. The next tail scan is not whole
// then, as above.
func TestTailScanIsNotWholeAfterAReconciliationScanFoundRows(t *testing.T) {
	now := time.Now()
	f := New(&order{}, 10, 100, time.Second, 0, now)
	snapshot := outbox.Snapshot{Oldest: 7, Next: 7, Unassigned: 7}
	found := false
	for range 40 {
		now = now.Add(time.Second)
		q, kind, ok := f.Next(now, 100, 1<<20)
		switch {
		case !ok:
		case kind == Reconcile:
			rows := rowsAt(1)
			rows[0].Position, found = outbox.AtNull("1"), true
			f.Read(kind, outbox.Page{Rows: rows, End: rows[0].Position, Snapshot: snapshot, Horizon: &outbox.Horizon{Snapshot: snapshot}}, now, now)
			f.ReconciliationTaken(1, false, now)
		case found:
			if f.Whole(kind, q) && q.Recent != nil || !f.Scannable() {
				t.Errorf("nothing brings what was passed over: %+v", q)
			}
			return
		default:
			f.Read(kind, outbox.Page{Snapshot: snapshot, Ended: snapshot}, now, now)
			f.TailTaken(0, 0, 0, time.Time{}, false, now)
		}
	}
	t.Fatal("no reconciliation scan, or no read after it")
}

// The tail scan begins again, as after a pause of the destination, while a reconciliation scan is due. It goes first: a reconciliation scan
// ends where the tail scan is.
func TestTailScanThatBeginsAgainGoesBeforeReconciliation(t *testing.T) {
	now := time.Now()
	f := New(&order{}, 10, 100, 50*time.Millisecond, 0, now)
	for i := range int64(20) {
		now = now.Add(60 * time.Millisecond)
		if _, kind, ok := f.Next(now, 100, 1<<20); !ok || kind != Tail {
			t.Fatal(kind, ok)
		}
		f.Read(Tail, outbox.Page{Rows: rowsAt(i), Snapshot: outbox.Snapshot{Oldest: 7, Next: 7, Unassigned: 7}}, now, now)
		f.TailTaken(1, 1, 0, time.Time{}, false, now)
	}
	f.Again()
	if _, kind, ok := f.Next(now.Add(time.Minute), 100, 1<<20); !ok || kind != Tail {
		t.Errorf("the next read is of kind %v", kind)
	}
}
