package retry

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// However many topics repeat, only a bounded number of them is remembered.
func TestRepeatsAreBounded(t *testing.T) {
	r, now := Repeats{}, time.Now()
	for i := range 2 * mostRepeats {
		r.Pause(publisher.Fate{Name: fmt.Sprint("t", i)}, now.Add(time.Duration(i)*time.Millisecond))
		if len(r) > mostRepeats {
			t.Fatalf("%d topics of %d are remembered", len(r), i)
		}
	}
	last := publisher.Fate{Name: fmt.Sprint("t", 2*mostRepeats-1)}
	if e := r[last]; e == nil || e.level != 1 {
		t.Errorf("of the last topic is known: %v", e)
	}
}
