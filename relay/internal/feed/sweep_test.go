package feed

import "testing"

// If rows come in no order at all, sweeps find some all the time. The walk begins again because of that more and more
// rarely.
func TestStraysAllTheTime(t *testing.T) {
	var s strays
	anew := 0
	for range 1000 {
		s.found = true
		if s.swept() {
			anew++
		}
	}
	if anew < 10 || anew > 30 {
		t.Errorf("1000 sweeps that found rows let the walk begin anew %d times", anew)
	}
	s.swept() // finds none
	if s.found = true; !s.swept() {
		t.Error("after a sweep that found none, one that does is not enough")
	}
}
