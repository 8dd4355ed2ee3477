package relay

import (
	"fmt"
	"testing"
	"time"
)

// Rows that wait through an outage are not passed to the publisher again and again.
func TestOutageCountsFewMessages(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		n := s.fill(200, 10, "t")
		s.Down()
		stop := s.start()
		defer stop()
		time.Sleep(2 * time.Minute)
		tries := 0
		for i := range 200 {
			for j := range 10 {
				tries += s.Tries(fmt.Sprintf("k%d-%d", i, j))
			}
		}
		if most := n + 10*4*120; tries > most || tries == 0 { // the first batches, then a probe four times a second
			t.Errorf("%d messages were handed over, want at most %d", tries, most)
		}
		s.Up()
		s.table.drained(t, 5*time.Second)
		checkOrder(t, s.All())
	})
}
