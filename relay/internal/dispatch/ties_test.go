package dispatch

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// tied returns a row of the key k.
func tied(ordinal int64, id, topic string) outbox.Row {
	return outbox.Row{Message: publisher.Message{ID: id, Topic: topic, Key: []byte("k")}, Position: outbox.At(ordinal, id), Attempt: 1}
}

// withTies returns a dispatch of a table in which several rows may have the same order value.
func withTies(t *testing.T) *Dispatch {
	t.Helper()
	d := testDispatch(t)
	d.Table = &stubTable{ties: true}
	return d
}

// A transaction inserts two rows of a key, which have the same order value (now() is the same in a whole transaction). The topic of the
// second is missing. The first one does not wait for it.
func TestRowDoesNotWaitForAHeadAfterItWithTheSameOrderValue(t *testing.T) {
	for _, textIDs := range []bool{false, true} {
		for _, second := range []int64{8, 7} {
			d, now := withTies(t), time.Now()
			d.Table = &stubTable{ties: true, textIDs: textIDs}
			d.Take(rowsOf("x", "gone", 1), FromFeed, now)
			published(t, d, errNoTopic, "x-1")
			d.Begin()
			d.Take([]outbox.Row{tied(7, "a", "t"), tied(second, "b", "gone")}, FromFeed, now)
			published(t, d, nil, "a")
		}
	}
}

// A destination is paused for a moment while a row is on the wire. When the row comes back, the key's queued row with the same order value
// does not go before it.
func TestRowThatComesBackGoesBeforeAQueuedOneWithTheSameOrderValue(t *testing.T) {
	for _, second := range []int64{8, 7} {
		d, now := withTies(t), time.Now()
		d.Take([]outbox.Row{tied(7, "a", "t")}, FromFeed, now)
		sent := d.batch(0, now)
		d.own(owner.Set{})
		d.own(owner.All(1))
		d.Whole()
		d.Begin()
		d.Take([]outbox.Row{tied(7, "a", "t"), tied(second, "b", "t")}, FromFeed, now)
		d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
		published(t, d, nil, "")
	}
}

// A destination is paused for a moment while a row is on the wire. When it is resumed, a younger row of the key, with the same order
// value, waits for its topic as the key's head. The first row comes back. Neither the head nor a queued row between both goes before it.
func TestRowThatComesBackGoesBeforeAHeadWithTheSameOrderValue(t *testing.T) {
	for _, between := range []bool{false, true} {
		for _, second := range []int64{8, 7} {
			d, now := withTies(t), time.Now()
			rows := []outbox.Row{tied(7, "a", "t")}
			if between {
				rows = append(rows, tied(second, "b", "t"))
			}
			rows = append(rows, tied(second, "c", "gone"))
			d.Take(rowsOf("x", "gone", 1), FromFeed, now)
			published(t, d, errNoTopic, "x-1")
			d.Begin()
			d.Take(rows[:1:1], FromFeed, now)
			sent := d.batch(0, now)
			d.own(owner.Set{})
			d.own(owner.All(1))
			d.Whole()
			d.Begin()
			d.Take(append(rowsOf("x", "gone", 1), rows...), FromFeed, now)
			d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
			published(t, d, nil, "")
			if w := d.waits.of(keyOf(&rows[0]).Hash()); w.headID == "c" {
				t.Errorf("second at %d: c is tried before a: %v", second, w)
			}
			if low := d.Scanning(); low != 7 {
				t.Errorf("the scan begins at %d", low)
			}
		}
	}
}

// A row comes back while a catch-up scan brings its key's rows, of which it has brought one with the same order value.
func TestRowThatComesBackDuringAScanGoesBeforeAQueuedOneWithTheSameOrderValue(t *testing.T) {
	for _, second := range []int64{8, 7} {
		d, now := withTies(t), time.Now()
		d.Take([]outbox.Row{tied(7, "a", "t")}, FromFeed, now)
		sent := d.batch(0, now)
		d.own(owner.Set{})
		d.own(owner.All(1))
		d.Whole()
		d.Begin()
		d.Decline([]outbox.Row{tied(7, "a", "t"), tied(second, "b", "t")}, now) // a long transaction has ended
		d.Scanning()
		d.Begin()
		d.TakeScan(page([]outbox.Row{tied(7, "a", "t"), tied(second, "b", "t")}), now)
		d.Answer(0, sent, []error{publisher.ErrNotAttempted}, now)
		published(t, d, nil, "")
	}
}
