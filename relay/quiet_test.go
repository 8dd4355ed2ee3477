package relay

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// Whatever the relay waits for, its loop sleeps in the meantime.
func TestLoopSleepsWhileItWaits(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*sim) (end func()){
		"nothing to do": func(*sim) func() { return func() {} },
		"broker down":   func(s *sim) func() { s.fill(30, 20, "t"); s.Down(); return func() {} },
		"topic missing": func(s *sim) func() { s.fill(30, 20, "t"); s.Remove("t"); return func() {} },
		"topic down":    func(s *sim) func() { s.fill(30, 20, "t"); s.DownTopic("t"); return func() {} },
		"database down": func(s *sim) func() { s.fill(30, 20, "t"); s.table.setDown(true); return func() {} },
		"slow reads": func(s *sim) func() {
			s.Refuse("k0-0", 3)
			s.fill(5, 5, "t")
			s.table.took = 5 * time.Second
			return func() {}
		},
		"writes wait": func(s *sim) func() { s.fill(30, 20, "t"); s.Refuse("k0-0", 3); return s.table.hold() },
		"no trust": func(s *sim) func() {
			s.fill(30, 20, "t")
			past := time.Now()
			s.owner.trusted = func() time.Time { return past }
			return func() {}
		},
		"retries waiting": func(s *sim) func() { s.fill(30, 20, "t"); s.Refuse("k0-0", 4); return func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				release := trouble(s)
				stop := s.start()
				time.Sleep(5 * time.Second)
				turns, reads := s.turns.Load(), s.table.readCount()
				time.Sleep(20 * time.Second)
				turns, reads = s.turns.Load()-turns, s.table.readCount()-reads
				if turns > 20*100 || reads > 20*50 {
					t.Errorf("%d turns and %d reads in 20 s", turns, reads)
				}
				s.Reset()
				s.table.setDown(false)
				release()
				stop()
			})
		})
	}
}

// An owner that loses its trust while its destination is held waits for both without turning its loop.
func TestLoopSleepsWithoutTrustInAnOutage(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		until := time.Now().Add(2 * time.Second)
		s.owner.trusted = func() time.Time { return until }
		s.fill(30, 20, "t")
		s.Down()
		stop := s.start()
		defer stop()
		time.Sleep(3 * time.Second)
		turns := s.turns.Load()
		time.Sleep(10 * time.Second)
		if turns = s.turns.Load() - turns; turns > 500 {
			t.Errorf("%d turns in 10 s", turns)
		}
	})
}

// A key with more rows accepted and not yet settled than one read returns is not read repeatedly.
func TestUnsettledRowsAreNotReadOverAndOver(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.limits = engine.Limits{Batch: 10, Rows: 100, Bytes: 1 << 20}
		s.Refuse("k-0", 1)
		for i := range 30 {
			s.table.insert(int64(i+1), fmt.Sprintf("k-%d", i), "k", "t")
		}
		stop := s.start()
		defer stop()
		for s.Tries("k-0") < 2 {
			time.Sleep(time.Millisecond)
		}
		release := s.table.hold()
		defer release()
		time.Sleep(time.Second)
		reads := s.table.readCount()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if reads = s.table.readCount() - reads; reads > 10*100 {
			t.Errorf("%d reads in 10 s", reads)
		}
		release()
		s.table.drained(t, 5*time.Second)
		checkOrder(t, s.All())
	})
}
