package dispatch

import "testing"

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
