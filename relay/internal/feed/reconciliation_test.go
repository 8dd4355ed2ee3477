package feed

import "testing"

// If rows come in no order at all, reconciliation scans find some all the time. The tail scan begins again because of that more and more
// rarely.
func TestStraysAllTheTime(t *testing.T) {
	var s strays
	restarts := 0
	for range 1000 {
		s.found = true
		if s.ended() {
			restarts++
		}
	}
	if restarts < 10 || restarts > 30 {
		t.Errorf("1000 reconciliation scans that found rows made the tail scan begin again %d times", restarts)
	}
	s.ended() // finds none
	if s.found = true; !s.ended() {
		t.Error("after a reconciliation scan that found none, a scan that finds one is not enough")
	}
}
