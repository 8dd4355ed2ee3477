package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A destination in an outage is tried with the first rows of a few keys, whatever the queue holds. The rows that are
// skipped keep their order.
func TestProbeIsSmall(t *testing.T) {
	for name, keyOf := range map[string]func(int) string{
		"many keys": func(i int) string { return fmt.Sprint("k", i) },
		"few keys":  func(i int) string { return fmt.Sprint("k", i%3) },
		"a hot key": func(i int) string { return fmt.Sprint("k", max(0, i-500)) },
		"one key":   func(int) string { return "k" },
	} {
		t.Run(name, func(t *testing.T) {
			d, now := testDispatch(t), time.Now()
			d.Limits = Limits{Batch: 1000, Rows: 4000, Bytes: 1 << 20}
			var rows []outbox.Row
			keys := map[string]bool{}
			for i := range 2000 {
				id := fmt.Sprintf("%04d", i)
				keys[keyOf(i)] = true
				rows = append(rows, outbox.Row{
					Message:  publisher.Message{ID: id, Topic: "t", Key: []byte(keyOf(i))},
					Position: outbox.At(int64(i), id), Attempt: 1,
				})
			}
			d.Take(rows, FromFeed, now)
			d.outage.fail(CauseUnavailable, publisher.ErrClosed, now)
			now = now.Add(time.Minute)
			probe := d.batch(0, now)
			seen := map[string]bool{}
			for _, r := range probe {
				seen[r.key.text] = true
			}
			if len(probe) != len(seen) || len(probe) > probeKeys || len(probe) < min(len(keys), probeKeys) && name != "a hot key" {
				t.Fatalf("%d rows of %d keys", len(probe), len(seen))
			}
			for range 20 {
				errs := slices.Repeat([]error{publisher.ErrClosed}, len(probe))
				d.Answer(0, probe, errs, now)
				now = now.Add(time.Minute)
				probe = d.batch(0, now)
			}
			d.Answer(0, probe, make([]error, len(probe)), now)
			last := map[string]string{}
			for _, r := range probe {
				last[r.key.text] = r.ID()
			}
			left := 0
			for batch := d.batch(0, now); batch != nil; batch = d.batch(0, now) {
				for _, r := range batch {
					if r.ID() < last[r.key.text] {
						t.Fatalf("%s goes after %s", r.ID(), last[r.key.text])
					}
					last[r.key.text] = r.ID()
				}
				left += len(batch)
				d.Answer(0, batch, make([]error, len(batch)), now)
			}
			if left+len(probe) != len(rows) {
				t.Errorf("%d rows in the end", left+len(probe))
			}
		})
	}
}
