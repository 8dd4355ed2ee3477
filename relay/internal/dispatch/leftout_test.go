package dispatch

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A catch-up scan leaves a row to the next tail scan, since another session has changed the row. That tail scan begins
// before the catch-up scan ends, and meets the row later than the catch-up scan meets a younger row of the key. The
// younger row waits.
func TestScanDoesNotOvertakeWhatItLeftOut(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.passKey(key{text: "other"}, 1, noShard, 1, now)
	d.Scanning()
	d.Begin()
	d.TakeScan(page(beyond(rowsOf("k", "t", 4))), now)
	d.Late.TakeLeftOut()
	d.Begin()
	d.TakeScan(page(rowsOf("k", "t", 9)), now)
	published(t, d, nil, "")
	d.Scanned(now)
	nextScanBringsBoth(t, d, now)
}

// nextScanBringsBoth checks that the next catch-up scan brings two rows in order, of which the first was left to a tail scan.
func nextScanBringsBoth(t *testing.T, d *Dispatch, now time.Time) {
	t.Helper()
	if low := d.Scanning(); low != 4 {
		t.Errorf("the next scan begins at %d", low)
	}
	d.Begin()
	d.TakeScan(page(rowsOf("k", "t", 4, 9)), now)
	published(t, d, nil, "k-4")
	published(t, d, nil, "k-9")
}

// Tail scans leave a row to the next one, since another session has changed the row. While that one is under way, the reconciliation scan
// meets a younger row of the key first. It waits, and a catch-up scan brings both.
func TestReconciliationDoesNotOvertakeWhatIsLeftToATailScan(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Begin()
	d.Take(beyond(rowsOf("k", "t", 4)), FromFeed, now)
	d.Late.TakeLeftOut()
	d.Begin()
	d.Take(rowsOf("k", "t", 9), FromReconciliation, now)
	published(t, d, nil, "")
	nextScanBringsBoth(t, d, now)
}

// A long transaction commits two rows of a key after a younger row was sent. The first of them is left to the next tail scan. The younger
// one is refused. The second does not go before the first, whatever its key waits for meanwhile.
func TestRowBeforeAHeadDoesNotOvertakeWhatIsLeftOut(t *testing.T) {
	for _, name := range []string{"writing", "resting", "trial", "reconciliation"} {
		t.Run(name, func(t *testing.T) {
			d, now, from := testDispatch(t), time.Now(), FromFeed
			sent := handedOver(d, rowsOf("k", "t", 50), now)
			d.Take(beyond(rowsOf("k", "t", 40)), FromFeed, now)
			d.Answer(0, sent, []error{errRefused}, now)
			if name == "reconciliation" {
				d.Late.TakeLeftOut()
				from = FromReconciliation
			}
			if name == "resting" || name == "trial" {
				d.refusedWritten(Outcome{Refused: d.refuse, Effects: map[string]Effect{sent[0].Identity(): Written}}, now)
			}
			if name == "trial" {
				now = now.Add(time.Hour)
				waits := d.Trials(10, now)
				d.Begin()
				d.TakeTrials(waits, rowsOf("k", "t", 50), false, now)
			}
			d.Begin()
			d.Take(rowsOf("k", "t", 45), from, now)
			published(t, d, nil, "")
		})
	}
}

// A row before a head is left to the next tail scan. The head does not go before it, be it that the head rests, is being read or is queued.
// If the head is refused at that time, it is not tried again before.
func TestHeadGoesAfterWhatIsLeftOutBeforeIt(t *testing.T) {
	for _, name := range []string{"writing", "resting", "asked", "trial", "on the wire"} {
		t.Run(name, func(t *testing.T) {
			d, now := testDispatch(t), time.Now()
			d.Take(rowsOf("k", "t", 50), FromFeed, now)
			sent := d.batch(0, now)
			refuse := func() {
				d.Answer(sent[0].worker, sent, []error{errRefused}, now)
			}
			written := func() {
				d.refusedWritten(Outcome{Refused: d.refuse, Effects: map[string]Effect{sent[0].Identity(): Written}}, now)
				d.refuse = nil
			}
			var waits []*Wait
			take := func() {
				d.Begin()
				d.TakeTrials(waits, rowsOf("k", "t", 50), false, now)
			}
			if refuse(); name != "writing" {
				written()
			}
			if name == "asked" || name == "trial" || name == "on the wire" {
				now = now.Add(time.Hour)
				if waits = d.Trials(10, now); name != "asked" {
					take()
				}
			}
			if name == "on the wire" {
				sent = d.batch(d.workers(), now)
			}
			d.Begin()
			d.Take(beyond(rowsOf("k", "t", 40)), FromFeed, now)
			switch name {
			case "writing":
				written()
			case "asked":
				take()
			case "on the wire":
				refuse()
				written()
			}
			now = now.Add(time.Hour)
			if waits = d.Trials(10, now); len(waits) > 0 {
				take()
			}
			published(t, d, nil, "")
			if got := d.batch(d.workers(), now); len(got) > 0 {
				t.Errorf("%s is sent", got[0].ID())
			}
			if low := d.Scanning(); low != 40 {
				t.Errorf("the scan begins at %d", low)
			}
		})
	}
}

// A row is on the wire when an older row of its key is passed over, and the scan for that one begins before the answer. A row that was not
// sent waits for the scan, which brings both in order.
func TestRowOnTheWireGoesAfterWhatTheScanBrings(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	sent := handedOver(d, rowsOf("k", "t", 9), now)
	d.Decline(rowsOf("k", "t", 6), now)
	d.Scanning()
	d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
	published(t, d, nil, "")
	d.Begin()
	d.TakeScan(page(rowsOf("k", "t", 6, 9)), now)
	published(t, d, nil, "k-6")
	published(t, d, nil, "k-9")
}

// While a catch-up scan is to bring the rows of a key, the tail scan takes none of them.
func TestTailScanTakesNothingThatAScanHasToBring(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		d, now := testDispatch(t), time.Now()
		d.Table = &stubTable{unordered: unordered}
		d.closed("k", now)
		d.Scanning()
		d.Begin()
		if taken, _ := d.Take(rowsOf("k", "t", 9), FromFeed, now); taken != 0 {
			t.Errorf("unordered %v: %d rows are taken", unordered, taken)
		}
	}
}
