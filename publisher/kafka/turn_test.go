package kafka

import (
	"testing"
	"time"
)

// A turn goes from job to job in the order in which they asked, and passes over jobs that have left. It shows when its
// holder makes no progress. A queue that moves is waited for, however long it is.
func TestTurns(t *testing.T) {
	t.Parallel()
	var tn turn
	c := &call{turns: make(chan *job, 100)}
	var jobs []*job
	for i := range 100 {
		j := &job{call: c}
		jobs = append(jobs, j)
		if tn.take(j) != (i == 0) {
			t.Fatalf("job %d of 100", i)
		}
	}
	if tn.try() {
		t.Error("two have the turn")
	}
	for i, j := range jobs {
		if i%3 == 2 && !tn.leave(j) {
			t.Errorf("job %d has the turn already", i)
		}
	}
	for i := 1; i < len(jobs); i++ {
		if i%3 == 2 {
			continue
		}
		tn.since = tn.since.Add(-time.Hour)
		if tn.stands(time.Now()) < time.Hour {
			t.Error("a holder that comes to nothing does not show")
		}
		tn.release()
		if j := <-c.turns; j != jobs[i] {
			t.Fatalf("another job than %d has the turn", i)
		}
		if tn.leave(jobs[i]) || tn.stands(time.Now()) > time.Hour/2 {
			t.Errorf("job %d has just got the turn", i)
		}
		tn.since = tn.since.Add(-time.Hour)
		if tn.progress(); tn.stands(time.Now()) > time.Hour/2 {
			t.Error("what was accepted does not count")
		}
	}
	tn.release()
	if !tn.try() || len(c.turns) > 0 {
		t.Error("nobody wants the turn, and it is not free")
	}
}
