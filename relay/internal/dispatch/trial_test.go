package dispatch

import (
	"slices"
	"testing"
	"time"
)

// The head that tries a hold does not wait behind very many keys that were refused, nor do these behind very many holds.
func TestHoldsAndRefusedKeysShareTheReads(t *testing.T) {
	for _, test := range []struct{ refused, held, wantRefused, wantHeld int }{
		{2000, 1, 99, 1}, {2000, 80, 50, 50}, {2000, 2000, 50, 50}, {10, 2000, 10, 90}, {30, 20, 30, 20}, {0, 2000, 0, 100}, {2000, 0, 100, 0},
	} {
		d := testDispatch(t)
		for i := range test.refused + test.held {
			w := &Wait{hash: uint64(i), index: -1}
			if i >= test.refused {
				w.hold = &hold{}
			}
			d.ask(w)
		}
		for range 2 { // reading takes none of them away
			refused, held := 0, 0
			for _, w := range d.firstAsked(100) {
				if w.hold == nil {
					refused++
				} else {
					held++
				}
			}
			if refused != test.wantRefused || held != test.wantHeld {
				t.Errorf("of %d refused and %d holds %d and %d are read", test.refused, test.held, refused, held)
			}
		}
		for _, w := range d.asking[:min(len(d.asking), 60)] {
			w.state = trial
		}
		if got := len(d.asking.first(100)); got != max(0, min(100, test.refused-60)) {
			t.Errorf("%d refused keys are asked for", got)
		}
	}
}

// With room for one head at a time both kinds have their turns.
func TestRoomForOneHeadIsShared(t *testing.T) {
	d := testDispatch(t)
	for i, h := range []*hold{nil, nil, {}, {}} {
		d.ask(&Wait{hash: uint64(i), index: -1, hold: h})
	}
	refused, held := 0, 0
	for range 200 {
		if d.firstAsked(1)[0].hold == nil {
			refused++
		} else {
			held++
		}
	}
	if refused < 20 || held < 20 {
		t.Errorf("of 200 reads %d are of refused keys and %d of holds", refused, held)
	}
}

// A key that has come to try a hold, while it was asked for as a refused one, is read as the former, and once.
func TestAskedAgainForAHold(t *testing.T) {
	d := testDispatch(t)
	var last *Wait
	for i := range 1000 {
		last = &Wait{hash: uint64(i), index: -1}
		d.ask(last)
	}
	last.state, last.hold = held, &hold{}
	d.ask(last)
	for n, want := range map[int]int{10: 10, 1000: 1000, 2000: 1000} {
		got := d.firstAsked(n)
		if got[0] != last || len(got) != want {
			t.Errorf("of %d: %d keys, the first with the hold %t", n, len(got), got[0] == last)
		}
	}
}

// A hold that is to be tried at once does not hide when the next key is due.
func TestEachTimeOfATrialIsNamed(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Take(rowsOf("held", "t", 1), FromFeed, now)
	d.Answer(0, d.batch(0, now), []error{errNoTopic}, now)
	for _, h := range d.holds.byFate {
		h.until = time.Time{}
	}
	d.Take(rowsOf("refused", "u", 2), FromFeed, now)
	sent := d.batch(0, now)
	d.Answer(0, sent, []error{errRefused}, now)
	d.refusedWritten(Outcome{Refused: d.refuse, Effects: map[string]Effect{sent[0].Identity(): Written}}, now)
	var named []time.Time
	d.NextTrial(func(at time.Time) { named = append(named, at) })
	if len(named) != 2 || !slices.ContainsFunc(named, time.Time.IsZero) {
		t.Errorf("heads are read at %v", named)
	}
}
