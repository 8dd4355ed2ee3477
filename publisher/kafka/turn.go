package kafka

import (
	"slices"
	"sync"
	"time"
)

// A turn is the right to use a partition. Jobs get it in the order in which they ask. A job that waits for its turn keeps its
// call from nothing: the other jobs of the call go on.
type turn struct {
	mu      sync.Mutex
	taken   bool
	since   time.Time // when it was taken, or when its holder last had something accepted
	waiting []*job
}

// try takes the turn if nobody has it.
func (t *turn) try() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken {
		return false
	}
	t.taken = true
	return true
}

// take gives the job the turn and reports true, or lets it wait: then the job comes to turns of its call once it has the turn.
func (t *turn) take(j *job) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken {
		t.waiting = append(t.waiting, j)
		return false
	}
	t.taken, t.since = true, time.Now()
	return true
}

// release gives the turn to the next job.
func (t *turn) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.taken = false
		return
	}
	next := t.waiting[0]
	t.since = time.Now()
	t.waiting = slices.Delete(t.waiting, 0, 1)
	next.call.turns <- next // it has room for each job of the call
}

// leave ends the waiting of a job. It reports false when the job has got the turn meanwhile.
func (t *turn) leave(j *job) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.waiting, j)
	if at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
	}
	return at >= 0
}

// progress notes that whoever has the turn has had something accepted.
func (t *turn) progress() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since = time.Now()
}

// stands is for how long whoever has the turn has had nothing accepted.
func (t *turn) stands(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Sub(t.since)
}
