package dispatch

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// While heads are tried in vain, they leave most of the time to other rows. What becomes of other rows does not matter, and a head that
// is accepted ends it.
func TestHeadsInVainRest(t *testing.T) {
	var v vain
	d := testDispatch(t)
	openHolds(&d.holds, vainAfter)
	rests := func(want time.Duration) {
		t.Helper()
		d.vain = v
		if rest := d.TrialRest(nil, time.Second); rest != want*time.Second {
			t.Errorf("after %d heads in vain the rest is %v, want %d s", v.heads, rest, want)
		}
	}
	refused := map[publisher.Class]int{publisher.Refused: vainAfter / 2}
	v.answered(refused, vainAfter/2, true)
	rests(4)
	v.answered(refused, vainAfter/2, false)
	v.answered(map[publisher.Class]int{publisher.NotAttempted: vainAfter}, vainAfter, true)
	rests(4)
	v.answered(refused, vainAfter/2, true)
	rests(20)
	if n := d.MostTrials(500); n != 100 {
		t.Errorf("%d heads are read at once", n)
	}
	if rest := d.TrialRest(make([]*Wait, 100), time.Millisecond); rest != 100*time.Millisecond {
		t.Errorf("100 heads in vain rest %v, want a millisecond for each", rest)
	}
	few := testDispatch(t)
	openHolds(&few.holds, 100)
	if few.vain = v; few.TrialRest(nil, time.Second) != 4*time.Second {
		t.Errorf("the heads of 100 holds rest %v", few.TrialRest(nil, time.Second))
	}
	v.answered(map[publisher.Class]int{publisher.Accepted: 1}, 1, false)
	rests(20)
	v.answered(map[publisher.Class]int{publisher.Accepted: 1, publisher.Refused: 9}, 10, true)
	rests(4)
	if n := d.MostTrials(500); n != 500 {
		t.Errorf("%d heads are read at once after one was accepted", n)
	}
}
