package relay

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// past relays a row, so that the marks of the rows that follow are not tried before.
func (s *sim) past(t *testing.T) {
	t.Helper()
	s.table.insert(-1, "past-0", "past", "t")
	s.table.drained(t, time.Minute)
}

// A row that an application keeps locked delays no other row, before and after the relay has tried to mark it, and is
// not published again. The refusal of a locked row is also written later.
func TestLockedRowsHoldUpNobody(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		stop := s.start()
		s.past(t)
		n := 1 + s.fill(20, 500, "t")
		s.Refuse("k1-7", 1)
		s.table.lock(func(id string) bool { return id == "k0-3" || id == "k1-7" || id == "k2-0" })
		started := time.Now()
		later := 500 - 7 // later rows of the key whose refusal cannot be written
		for len(s.table.pending()) > 2+later {
			if time.Since(started) > 5*time.Second {
				t.Fatalf("%d rows pending beside 3 locked ones", len(s.table.pending()))
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		settles := s.table.settleCount()
		time.Sleep(10 * time.Second)
		if settles = s.table.settleCount() - settles; settles > 12 {
			t.Errorf("%d tries to mark in 10 s", settles)
		}
		s.table.lock(func(string) bool { return false })
		s.table.drained(t, 5*time.Second)
		stop()
		if got := len(s.All()); got != n {
			t.Errorf("%d deliveries of %d rows", got, n)
		}
		if r := s.table.row("k1-7"); r.attempt != 2 {
			t.Errorf("refused once: %+v", r)
		}
		checkOrder(t, s.All())
	})
}

// A row that is locked when a relay starts is not published until it is free, however often the relay is started, and
// not then if the database would not mark it. Only its key waits.
func TestRowsLockedAtTheStart(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		n := s.fill(20, 50, "t")
		s.table.inert = map[string]bool{"k1-7": true}
		s.table.lock(func(id string) bool { return strings.HasSuffix(id, "-7") && !strings.HasPrefix(id, "k0-") })
		waiting := 19 * (50 - 7)
		for range 3 {
			stop := s.start()
			time.Sleep(time.Minute)
			stop()
			if got := len(s.All()); got != n-waiting {
				t.Errorf("%d deliveries of %d rows that are not locked, nor behind one that is", got, n-waiting)
			}
		}
		s.table.lock(func(string) bool { return false })
		stop := s.start()
		time.Sleep(time.Minute)
		stop()
		if got := len(s.All()); got != n-43 {
			t.Errorf("%d deliveries of %d rows that can be marked", got, n-43)
		}
		checkOrder(t, s.All())
	})
}

// A clean stop waits for locked rows as long as it is allowed to. Otherwise they would be published twice.
func TestStopWaitsForLockedRows(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		stop := s.start()
		s.past(t)
		for i := range 10 {
			s.table.insert(int64(i), fmt.Sprintf("k-%d", i), "k", "t")
		}
		s.table.lock(func(id string) bool { return id == "k-5" })
		for len(s.table.pending()) > 1 {
			time.Sleep(time.Millisecond)
		}
		time.AfterFunc(10*time.Second, func() { s.table.lock(func(string) bool { return false }) })
		stop()
		if left := s.table.pending(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// Locked rows that leave no room for others are a reason not to be ready, until they are free.
func TestLockedRowsThatLeaveNoRoom(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.limits.Rows = 10
		stop := s.start()
		s.past(t)
		s.fill(20, 5, "t")
		s.table.lock(func(string) bool { return true })
		time.Sleep(time.Minute)
		d := s.destinations[0]
		if err := d.checkMarks(d.snapshot()).Err; err == nil ||
			!regexp.MustCompile("no more rows are read.*: 10; locked by another session").MatchString(err.Error()) {
			t.Errorf("the check says %v", err)
		}
		s.table.lock(func(string) bool { return false })
		s.table.drained(t, time.Minute)
		time.Sleep(time.Second)
		if err := d.checkMarks(d.snapshot()).Err; err != nil {
			t.Errorf("afterwards the check says %v", err)
		}
		stop()
	})
}
