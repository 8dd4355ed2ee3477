package dispatch

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// While a row is on the wire, this replica loses the row's shard and gets it again. The row is not accepted. By then an older row
// of its key may have been forgotten with the shard, so the row is not sent again before the shard has been read from the
// beginning.
func TestRowOfAShardThatCameBack(t *testing.T) {
	for name, answer := range map[string]error{
		"not attempted":     publisher.ErrNotAttempted,
		"destination down":  publisher.UnavailableError(publisher.ScopeDestination, "down", "down"),
		"topic unavailable": publisher.UnavailableError(publisher.ScopeTopic, "down", "down"),
	} {
		t.Run(name, func(t *testing.T) {
			d, now := testDispatch(t), time.Now()
			d.Take(rowsOf("k", "t", 9), FromFeed, now)
			var wire []*Row
			d.Hand(now, func(_ int, rows []*Row) { wire = rows })
			d.own(owner.Set{})
			d.own(owner.All(1))
			d.Answer(0, wire, []error{answer}, now)
			d.Hand(now.Add(time.Minute), func(_ int, rows []*Row) { t.Errorf("%s is sent again", rows[0].ID()) })
			if !d.Rewound() {
				t.Error("the shard is not read from the beginning")
			}
			d.outage = outage{} // the destination is up again
			d.Whole()
			d.Begin()
			d.Take(rowsOf("k", "t", 4, 9), FromFeed, now)
			published(t, d, nil, "k-4")
			published(t, d, nil, "k-9")
		})
	}
}

// Such a row that has an available_at is read again by its id: no scan would bring it, and the reads of due rows may have passed.
func TestDelayedRowOfAShardThatCameBack(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	rows := rowsOf("k", "t", 9)
	rows[0].Delayed = true
	d.Take(rows, FromFeed, now)
	var wire []*Row
	d.Hand(now, func(_ int, rows []*Row) { wire = rows })
	d.own(owner.Set{})
	d.own(owner.All(1))
	d.Answer(0, wire, []error{publisher.ErrNotAttempted}, now)
	if w := d.waits.of(wire[0].Hash); w == nil || w.Head() != "k-9" {
		t.Errorf("the row waits as %v", w)
	}
}

// A key whose failed row was retried waits without its shard being known. Once a row of it is read, the key is forgotten with the
// shard: otherwise the row that waits as its head would later go before older ones that were forgotten.
func TestKeyOfARetriedRowIsForgottenWithItsShard(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(rowsOf("other", "held", 1), FromFeed, now)
	published(t, d, publisher.TopologyError("no topic", "no topic"), "other-1")
	k := key{text: "k"}
	d.passKey(k, k.Hash(), noShard, 4, now)
	d.Scanning()
	d.Begin()
	d.TakeScan(page(append(rowsOf("k", "t", 4), rowsOf("k", "held", 9)...)), now)
	if w := d.waits.of(k.Hash()); w == nil || w.Head() != "k-9" {
		t.Fatalf("the key waits as %v", w)
	}
	d.own(owner.Set{})
	if w := d.waits.of(k.Hash()); w != nil {
		t.Errorf("the key still waits, as %v", w)
	}
}

// A shard is lost and won back while a row is on the wire. An older row of its key had been met, and is forgotten. If the row is
// refused, it is not tried again by itself: it is read again with the rows before it.
func TestRefusedRowOfAShardWonBackIsReadAgain(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	sent := handedOver(d, rowsOf("k", "t", 7), now)
	d.Decline(rowsOf("k", "t", 3), now)
	d.own(owner.Set{})
	d.own(owner.All(1))
	d.Answer(0, sent, []error{errRefused}, now)
	d.Whole()
	refusalsWritten(d, now)
	if asked := d.Trials(10, now.Add(time.Hour)); len(asked) > 0 {
		t.Error("the row is tried before the older one")
	}
	if low := d.Scanning(); low > 7 {
		t.Errorf("the scan begins at %d", low)
	}
}

// While the refusal of a head is being written, a row that goes before it is queued, and the shard is lost and won back. The queued row
// is forgotten. The head is not tried before it.
func TestShardWonBackWhileARefusalIsWritten(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take([]outbox.Row{tied(8, "b", "t")}, FromFeed, now)
	published(t, d, errRefused, "b")
	d.Begin()
	d.Take([]outbox.Row{tied(7, "a", "t")}, FromFeed, now)
	d.own(owner.Set{})
	d.own(owner.All(1))
	d.Whole()
	refusalsWritten(d, now)
	notBefore(t, d, now)
}
