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
		if rest := d.TrialRest(nil, 100*time.Millisecond); rest != want {
			t.Errorf("after %d heads in vain the rest is %v, want %v", v.heads, rest, want)
		}
	}
	refused := map[publisher.Class]int{publisher.Refused: vainAfter / 2}
	v.answered(refused, vainAfter/2, true)
	rests(400 * time.Millisecond)
	v.answered(refused, vainAfter/2, false)
	v.answered(map[publisher.Class]int{publisher.NotAttempted: vainAfter}, vainAfter, true)
	rests(400 * time.Millisecond)
	v.answered(refused, vainAfter/2, true)
	rests(longestVain)
	for i := range 2 * vainAfter {
		d.ask(&Wait{hash: uint64(i), index: -1, hold: []*hold{nil, {}}[i%2]})
	}
	asked := d.firstAsked(500)
	if rest := d.TrialRest(asked, time.Millisecond); len(asked) != 500 || rest != 200*time.Millisecond {
		t.Errorf("%d heads are read at once and rest %v, want two milliseconds for each of 100 that were refused", len(asked), rest)
	}
	few := testDispatch(t)
	openHolds(&few.holds, 100)
	if few.vain = v; few.TrialRest(nil, time.Second) != 4*time.Second {
		t.Errorf("the heads of 100 holds rest %v", few.TrialRest(nil, time.Second))
	}
	v.answered(map[publisher.Class]int{publisher.Accepted: 1}, 1, false)
	rests(longestVain)
	v.answered(map[publisher.Class]int{publisher.Accepted: 1, publisher.Refused: 9}, 10, true)
	rests(400 * time.Millisecond)
	if rest := d.TrialRest(d.firstAsked(500), time.Millisecond); rest != 4*time.Millisecond {
		t.Errorf("heads rest %v after one was accepted", rest)
	}
}
