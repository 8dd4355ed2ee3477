package dispatch

import (
	"testing"
	"time"

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
