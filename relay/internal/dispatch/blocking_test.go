package dispatch

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// Where failed rows block their keys, a row that is committed late is not sent once the failure of a younger row of its key is
// being written, whether it is read before or after the failing row's answer.
func TestLateRowOfAKeyThatIsBeingBlocked(t *testing.T) {
	for name, before := range map[string]bool{"read before the answer": true, "read after it": false} {
		t.Run(name, func(t *testing.T) {
			d, now := testDispatch(t), time.Now()
			d.Failures = &failures{}
			d.Take(rowsOf("k", "t", 9), FromFeed, now)
			var wire []*Row
			d.Hand(now, func(_ int, rows []*Row) { wire = rows })
			late := func() {
				d.Begin()
				d.Take(rowsOf("k", "t", 4), FromFeed, now)
			}
			if before {
				late()
			}
			d.Answer(0, wire, []error{publisher.PermanentError("no", "no")}, now)
			if !before {
				late()
			}
			published(t, d, nil, "")
		})
	}
}

// Where failed rows block their keys, no row of a key is sent either while the failure of a row with available_at is being
// written, although nothing waits for such a row otherwise. A read of all failed rows that begins before the failure has been
// committed does not free the key.
func TestKeyThatARowWithAvailableAtBlocks(t *testing.T) {
	for name, before := range map[string]bool{"queued before the answer": true, "read after it": false} {
		t.Run(name, func(t *testing.T) {
			d, now := testDispatch(t), time.Now()
			d.Failures = &failures{owned: owner.All(1), checked: owner.All(1)}
			due, others := rowsOf("k", "t", 9), func() { d.Take(rowsOf("k", "t", 4), FromFeed, now) }
			due[0].Delayed = true
			d.Take(due, FromFeed, now)
			var wire []*Row
			d.Hand(now, func(_ int, rows []*Row) { wire = rows })
			if before {
				others()
			}
			d.Answer(0, wire, []error{publisher.PermanentError("no", "no")}, now)
			if _, ok := d.NextFailed(now); !ok {
				t.Fatal("the failed rows are not read")
			}
			d.TakeFailed(outbox.FailedPage{}, true, now, now)
			if !d.Failures.has(wire[0]) {
				t.Error("the read of all failed rows frees the key")
			}
			if !before {
				d.Begin()
				others()
			}
			published(t, d, nil, "")
			d.Write(now, func(o Outcome) {
				o.Effects = map[string]Effect{wire[0].Identity(): Written}
				d.Written(o, now)
			})
			published(t, d, nil, "")
		})
	}
}
