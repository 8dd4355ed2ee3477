package dispatch

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A catch-up scan is given up after it has brought rows of a key, since the replica has gained a shard. They give way at once: if they were
// dropped one by one, a younger one could still be queued when the tail scan that begins again opens the key.
func TestRowsOfAScanThatIsGivenUpKeepTheirOrder(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.closed("k", now) // k-4 is queued, and a scan is to bring k-5
	d.Scanning()
	d.Begin()
	d.TakeScan(page(append(append(rowsOf("k", "t", 5, 6), rowsOf("other", "t", 7)...), rowsOf("k", "t", 8)...)), now)
	if d.AbandonScan(5); len(d.inFlight) != 2 {
		t.Errorf("%d rows take room, of which 2 can go", len(d.inFlight))
	}
	published(t, d, nil, "k-4")
	d.Whole()
	published(t, d, nil, "other-7")
	published(t, d, nil, "")
}

// A row is on the wire when an older row of its key, which was committed late, is seen in a page that is not taken. Then the replica
// gains another shard, so that the tail scan begins again. The row that was on the wire does not go before the older one.
func TestRowOnTheWireDoesNotOvertakeWhenTheTailScanBeginsAgain(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	sent := handedOver(d, rowsOf("k", "t", 9), now)
	d.Decline(rowsOf("k", "t", 6), now)
	d.Whole()
	d.Begin()
	d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
	published(t, d, nil, "")
}

// So it is if a catch-up scan reaches its end, where the tail scan that has begun again is, before either comes to these rows. When the
// tail scan has come by, the next catch-up scan opens the key.
func TestRowOnTheWireDoesNotOvertakeAfterAShortScan(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	sent := handedOver(d, rowsOf("k", "t", 9), now)
	d.Decline(rowsOf("k", "t", 6), now)
	d.Whole()
	d.scanOf(t, rowsOf("other", "t", 2), now)
	d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
	published(t, d, nil, "other-2")
	published(t, d, nil, "")
	d.scanOf(t, rowsOf("k", "t", 6, 9), now)
	published(t, d, nil, "k-6")
	published(t, d, nil, "k-9")
	if n := len(d.waits.catching); n > 0 {
		t.Errorf("%d keys are still closed", n)
	}
}

// A row is on the wire while its shard is not relayed for a moment, as in a short pause. The tail scan that begins again meets it while it
// is still there, and the row was changed after that tail scan had begun. The broker does not take the row, and a catch-up scan ends before
// it. Younger rows that the tail scan comes to later must not go before it.
func TestRowOnTheWireThatLooksNewIsNotOvertaken(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(rowsOf("k", "t", 4), FromFeed, now)
	sent := d.batch(0, now)
	d.own(owner.Set{})
	d.own(owner.All(1))
	d.Begin()
	d.Take(beyond(rowsOf("k", "t", 4)), FromFeed, now)
	d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
	d.Scanning()
	d.Scanned(now) // the catch-up scan went as far as the tail scan had seen rows that are not beyond
	d.Begin()
	d.Take(rowsOf("k", "t", 9), FromFeed, now)
	published(t, d, nil, "")
}

// rankedTable is a table with priorities, without rows.
type rankedTable struct{ *stubTable }

func (rankedTable) Ranked() bool { return true }

// A destination is paused for a moment while a row is on the wire. The tail scan that begins again queues the key's next row, and finds
// that the one after it has to wait for its topic. Then the row on the wire comes back. The queued row does not go before it.
func TestRowThatComesBackAfterAPauseIsNotOvertaken(t *testing.T) {
	for name, table := range map[string]Table{
		"ordered": &stubTable{}, "unordered": &stubTable{unordered: true}, "ranked": rankedTable{&stubTable{}},
	} {
		t.Run(name, func(t *testing.T) {
			d, now := testDispatch(t), time.Now()
			d.Table = table
			d.Take(rowsOf("x", "gone", 9), FromFeed, now)
			published(t, d, errNoTopic, "x-9")
			d.Begin()
			d.Take(rowsOf("k", "t", 1), FromFeed, now)
			sent := d.batch(0, now)
			d.own(owner.Set{})
			d.own(owner.All(1))
			d.Whole()
			d.Begin()
			d.Take(append(rowsOf("k", "t", 1, 2), rowsOf("k", "gone", 3)...), FromFeed, now)
			d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
			published(t, d, nil, "")
			if !d.ScanWanted() {
				t.Error("nothing brings the rows")
			}
		})
	}
}

// A row is refused that was on the wire while a catch-up scan began to bring an older one. It goes after that one.
func TestRefusedRowGoesAfterWhatTheScanBrings(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	sent := handedOver(d, rowsOf("k", "t", 10), now)
	d.Decline(rowsOf("k", "t", 5), now)
	d.Scanning()
	d.Answer(0, sent, []error{errRefused}, now)
	refusalsWritten(d, now)
	d.Scanned(now)
	if low := d.Scanning(); low > 5 {
		t.Errorf("the next scan begins at %d", low)
	}
	if asked := d.Trials(10, now.Add(time.Hour)); len(asked) > 0 {
		t.Error("the row is tried before the older one")
	}
}
