package dispatch

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// refusalsWritten writes all refusals.
func refusalsWritten(d *Dispatch, now time.Time) {
	for _, x := range d.refuse {
		d.refusedWritten(Outcome{Refused: []Refusal{x}, Effects: map[string]Effect{x.Row.Identity(): Written}}, now)
	}
	d.refuse = nil
}

// notBefore checks that the row b is not tried before the row a.
func notBefore(t *testing.T, d *Dispatch, now time.Time) {
	t.Helper()
	for _, w := range d.Trials(10, now.Add(time.Hour)) {
		if w.headID == "b" {
			t.Errorf("b is tried before a: %v", w)
		}
	}
}

// A row is committed late, with the same order value as its key's head and a smaller id. It does not wait for what the head waits for,
// and goes before it.
func TestLateRowGoesBeforeAHeadWithTheSameOrderValue(t *testing.T) {
	for _, order := range []struct{ head, late int64 }{{8, 7}, {7, 7}} {
		d, now := withTies(t), time.Now()
		head, late := tied(order.head, "b", "t"), tied(order.late, "a", "t")
		d.Take([]outbox.Row{head}, FromFeed, now)
		published(t, d, errRefused, "b")
		refusalsWritten(d, now)
		d.Begin()
		d.Take([]outbox.Row{late, head}, FromFeed, now)
		now = now.Add(time.Hour)
		if rows := try(t, d, now, []outbox.Row{head}); len(rows) != 0 {
			t.Error("the head is tried before the row that goes before it")
		}
		published(t, d, nil, "a")
		if rows := try(t, d, now.Add(time.Hour), []outbox.Row{head}); len(rows) != 1 {
			t.Errorf("%d heads are tried afterwards", len(rows))
		}
	}
}

// A row is on the wire. A row that goes before it, with the same order value, is committed late and is held, since its topic is missing.
// The first one is refused. It is not tried before the other.
func TestRefusedRowGoesAfterAHeadWithTheSameOrderValue(t *testing.T) {
	for _, second := range []int64{8, 7} {
		d, now := withTies(t), time.Now()
		d.Take(rowsOf("x", "gone", 1), FromFeed, now)
		published(t, d, errNoTopic, "x-1")
		sent := handedOver(d, []outbox.Row{tied(second, "b", "t")}, now)
		d.Take([]outbox.Row{tied(7, "a", "gone")}, FromFeed, now)
		if w := d.waits.of(sent[0].Hash); w == nil || w.headID != "a" {
			t.Fatalf("the key waits as %v", w)
		}
		d.Answer(0, sent, []error{errRefused}, now)
		refusalsWritten(d, now)
		notBefore(t, d, now)
	}
}

// The head of a key is refused, and while that is written, two late rows go. The first is refused. The second, with the same order value,
// comes back and does not go before it.
func TestLateRowsWithTheSameOrderValueKeepTheirOrder(t *testing.T) {
	for _, second := range []int64{8, 7} {
		d, now := withTies(t), time.Now()
		d.Limits.Batch = 2
		d.Take([]outbox.Row{tied(10, "z", "t")}, FromFeed, now)
		d.Answer(0, d.batch(0, now), []error{errRefused}, now)
		d.Take([]outbox.Row{tied(7, "a", "t"), tied(second, "b", "t")}, FromFeed, now)
		sent := d.batch(0, now)
		if len(sent) != 2 {
			t.Fatalf("%d rows are sent", len(sent))
		}
		d.Answer(0, sent, []error{errRefused, publisher.ErrNotAttempted}, now)
		for _, r := range d.batch(0, now) {
			t.Errorf("second at %d: %s is sent after a was refused", second, r.ID())
		}
	}
}

// While the head of a key tries its topic, a row is committed late that goes before it, with the same order value. The try ends in being
// held again: the head is not tried again before that row.
func TestHeldHeadGoesAfterALateRowWithItsOrderValue(t *testing.T) {
	for _, head := range []int64{8, 7} {
		d, now := withTies(t), time.Now()
		b := tied(head, "b", "gone")
		d.Take([]outbox.Row{b}, FromFeed, now)
		published(t, d, errNoTopic, "b")
		now = now.Add(time.Minute)
		sent := try(t, d, now, []outbox.Row{b})
		d.Begin()
		d.Take([]outbox.Row{tied(7, "a", "t")}, FromFeed, now)
		d.Answer(d.workers(), sent, []error{errNoTopic}, now)
		notBefore(t, d, now)
	}
}

// While a row is on the wire, a row before it with the same order value is seen and declined. The first one is refused.
func TestRefusedRowGoesAfterADeclinedOneWithItsOrderValue(t *testing.T) {
	for _, second := range []int64{8, 7} {
		d, now := withTies(t), time.Now()
		sent := handedOver(d, []outbox.Row{tied(second, "b", "t")}, now)
		d.Decline([]outbox.Row{tied(7, "a", "t")}, now)
		d.Answer(0, sent, []error{errRefused}, now)
		refusalsWritten(d, now)
		notBefore(t, d, now)
	}
}

// While a row is on the wire, its key comes to wait for a scan, and a row before it with the same order value is passed over. The first
// one is refused.
func TestRefusedRowGoesAfterAPassedOneWithItsOrderValue(t *testing.T) {
	for _, second := range []int64{8, 7} {
		d, now := withTies(t), time.Now()
		sent := handedOver(d, []outbox.Row{tied(second, "b", "t")}, now)
		d.Decline([]outbox.Row{tied(9, "c", "t")}, now)
		d.Take([]outbox.Row{tied(7, "a", "t")}, FromFeed, now)
		d.Answer(0, sent, []error{errRefused}, now)
		refusalsWritten(d, now)
		notBefore(t, d, now)
	}
}

// A scan has brought a row. Then it can bring no more of its key, and a row before it with the same order value is passed over. The first
// one waits for the next scan.
func TestBroughtRowGoesAfterAPassedOneWithItsOrderValue(t *testing.T) {
	for _, second := range []int64{8, 7} {
		d, now := withTies(t), time.Now()
		sent := handedOver(d, []outbox.Row{tied(6, "x", "t")}, now)
		d.Decline([]outbox.Row{tied(6, "w", "t")}, now)
		d.Answer(0, sent, []error{nil}, now)
		d.Scanning()
		d.TakeScan(page([]outbox.Row{tied(6, "w", "t"), tied(second, "b", "t")}), now)
		left := tied(9, "c", "t")
		left.Beyond = true
		d.TakeScan(page([]outbox.Row{left}), now)
		d.Begin()
		d.Take([]outbox.Row{tied(7, "a", "t")}, FromFeed, now)
		published(t, d, nil, "w")
		published(t, d, nil, "")
	}
}

// While a page of a scan is on its way, a row before one of its rows, with the same order value, is committed and passed over. The page
// does not show it. Both wait for the next scan.
func TestScanBringsNoRowAfterAPassedOneWithItsOrderValue(t *testing.T) {
	for _, second := range []int64{8, 7} {
		d, now := withTies(t), time.Now()
		sent := handedOver(d, []outbox.Row{tied(6, "x", "t")}, now)
		d.Decline([]outbox.Row{tied(second, "b", "t")}, now)
		d.Answer(0, sent, []error{nil}, now)
		d.Scanning()
		d.Begin()
		d.Take([]outbox.Row{tied(7, "a", "t")}, FromFeed, now)
		d.TakeScan(page([]outbox.Row{tied(second, "b", "t")}), now)
		published(t, d, nil, "")
		d.Scanned(now)
		d.Scanning()
		d.Begin()
		d.TakeScan(page([]outbox.Row{tied(7, "a", "t"), tied(second, "b", "t")}), now)
		published(t, d, nil, "a")
		published(t, d, nil, "b")
	}
}
