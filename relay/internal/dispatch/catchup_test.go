package dispatch

import (
	"slices"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// Only the rows of a few keys are read, if the scan has nothing else to bring.
func TestScanOfFewKeys(t *testing.T) {
	for extent, want := range map[extent]int{ofKeys: 1, andKeyless: 0, whole: 0} {
		d, now := testDispatch(t), time.Now()
		d.Table.(*stubTable).byKey = true
		d.Take(rowsOf("k", "t", 5, 9), FromFeed, now)
		d.Decline(rowsOf("k", "t", 7), now)
		d.catch.want(extent, 3)
		d.Scanning()
		if keys, null, ok := d.ScanKeys(false); !ok || null || len(keys) != want || (keys == nil) != (extent > ofKeys) {
			t.Errorf("a scan of the extent %d reads the keys %q, %t", extent, keys, null)
		}
	}
}

// page is a page of a scan with these rows.
func page(rows []outbox.Row) outbox.Page {
	return outbox.Page{Rows: rows, End: rows[len(rows)-1].Position, More: true}
}

// closed makes a key wait for the next scan, which is to bring its rows from 5 on.
func (d *Dispatch) closed(name string, now time.Time) {
	d.Take(rowsOf(name, "t", 4), FromFeed, now)
	d.Decline(rowsOf(name, "t", 5), now)
}

// A scan is over once each of its keys has come to a row that it leaves to the next scan, unless it has other rows to bring.
func TestScanIsDoneWhenItsKeysHaveStopped(t *testing.T) {
	for others, want := range map[bool]bool{false: true, true: false} {
		d, now := testDispatch(t), time.Now()
		d.closed("a", now)
		d.closed("b", now)
		if others {
			d.catch.want(andKeyless, 5)
		}
		d.Scanning()
		d.Begin()
		d.TakeScan(page(append(rowsOf("a", "t", 5), rowsOf("b", "t", 5)...)), now)
		d.Begin()
		d.TakeScan(page(append(beyond(rowsOf("a", "t", 6)), rowsOf("a", "t", 7, 8, 9)...)), now)
		if d.ScanDone() {
			t.Error("the scan is done while one of its keys goes on")
		}
		if keys, _, _ := d.ScanKeys(true); !others && !slices.Equal(keys, []string{"b"}) {
			t.Errorf("the next page is of %q", keys)
		}
		d.Begin()
		d.TakeScan(page(append(beyond(rowsOf("b", "t", 10)), rowsOf("a", "t", 11, 12, 13)...)), now)
		if got := d.ScanDone(); got != want {
			t.Errorf("with others %t, the scan is done: %t", others, got)
		}
		d.Scanned(now)
		if low := d.Scanning(); !others && low != 6 {
			t.Errorf("the next scan begins at %d", low)
		}
	}
}

// Deciding whether a scan is done takes as long as there are keys, and so is done once that many rows have come in vain.
func TestManyKeysAreNotLookedThroughForEachPage(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	for _, name := range []string{"a", "b", "c", "d"} {
		d.closed(name, now)
	}
	d.Scanning()
	for w := range d.waits.catching {
		w.stopped = true
	}
	d.Begin()
	d.TakeScan(page(rowsOf("a", "t", 5, 6, 7)), now)
	if d.ScanDone() {
		t.Error("the keys were looked through")
	}
	d.Begin()
	d.TakeScan(page(rowsOf("a", "t", 8, 9)), now)
	if !d.ScanDone() {
		t.Error("the scan is not done")
	}
}

// A row that a scan leaves out says nothing about the next scan, which may bring it.
func TestKeyOfTheNextScanIsNotStopped(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.closed("a", now)
	d.Scanning()
	d.closed("b", now)
	d.Begin()
	d.TakeScan(page(beyond(rowsOf("b", "t", 5))), now)
	d.Scanned(now)
	d.Scanning()
	d.Begin()
	if taken := d.TakeScan(page(rowsOf("b", "t", 5)), now); taken != 1 {
		t.Errorf("the next scan brings %d rows", taken)
	}
}

// After a page of some keys there is no page of all keys in the same scan.
func TestPagesOfAScanDoNotChangeToAllKeys(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.closed("a", now)
	d.Scanning()
	d.Begin()
	d.TakeScan(page(beyond(rowsOf("other", "t", 5, 6))), now)
	for _, test := range []struct {
		filter bool
		want   int
		ok     bool
	}{{false, 0, true}, {true, 1, true}, {false, 0, false}} {
		if keys, _, ok := d.ScanKeys(test.filter); len(keys) != test.want || ok != test.ok {
			t.Errorf("filter %t: the next page is of %q, %t", test.filter, keys, ok)
		}
	}
	d.AbandonScan(5)
	d.Scanning()
	d.Begin()
	d.TakeScan(page(rowsOf("other", "t", 5, 6)), now)
	if keys, _, ok := d.ScanKeys(true); keys != nil || !ok {
		t.Errorf("a page of the next scan is of %q, %t", keys, ok)
	}
}

// A scan that has to bring rows without a key asks for these and for its keys once pages of others have come in vain, and is over
// only at its end.
func TestScanOfRowsWithoutAKey(t *testing.T) {
	for name, wait := range map[string]func(*Dispatch, time.Time){
		"passed over": func(d *Dispatch, _ time.Time) { d.catch.want(andKeyless, 5) },
		"waiting":     func(d *Dispatch, now time.Time) { d.passKey(key{text: "row-5", keyless: true}, 1, 0, 5, now) },
	} {
		for _, indexed := range []bool{false, true} {
			d, now := testDispatch(t), time.Now()
			d.Table.(*stubTable).byKey = indexed
			d.closed("a", now)
			wait(d, now)
			d.Scanning()
			if keys, null, ok := d.ScanKeys(true); keys != nil || null || !ok {
				t.Errorf("%s: the first page is of %q, %t", name, keys, null)
			}
			d.Begin()
			d.TakeScan(page(rowsOf("other", "t", 3, 4)), now)
			d.Begin()
			d.TakeScan(page(rowsOf("other", "t", 3, 4)), now)
			if keys, null, ok := d.ScanKeys(true); !slices.Equal(keys, []string{"a"}) || !null || !ok {
				t.Errorf("%s: the next page is of %q, %t, %t", name, keys, null, ok)
			}
			d.Begin()
			d.TakeScan(page(beyond(rowsOf("a", "t", 5, 6, 7, 8, 9))), now)
			if keys, null, ok := d.ScanKeys(true); keys == nil || len(keys) > 0 || !null || !ok || d.ScanDone() {
				t.Errorf("%s: then the next page is of %q, %t, %t; the scan is done: %t", name, keys, null, ok, d.ScanDone())
			}
		}
	}
}
