package kafka

import (
	"slices"
	"sync"
	"time"
)

// A turn is the right to use a partition. Jobs get it in the order in which they ask. A job that waits for its turn
// does not hold up its call: the other jobs of the call go on.
type turn struct {
	mu      sync.Mutex
	taken   bool
	since   time.Time // time at which it was taken, or at which its holder last had something accepted
	waiting []*job
}

// try takes the turn if it is free.
func (t *turn) try() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken {
		return false
	}
	t.taken = true
	return true
}

// take gives the job the turn and reports true, or makes the job wait. A job that has waited arrives in turns of its
// call once it has the turn.
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
	next.call.turns <- next // the channel has room for each job of the call
}

// leave ends the waiting of a job. It reports false if the job has got the turn in the meantime.
func (t *turn) leave(j *job) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.waiting, j)
	if at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
	}
	return at >= 0
}

// progress notes that the holder of the turn has had something accepted.
func (t *turn) progress() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since = time.Now()
}

// stands returns how long the holder of the turn has had nothing accepted.
func (t *turn) stands(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Sub(t.since)
}
