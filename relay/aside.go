package relay

import (
	"context"
	"time"
)

// asideAfter is how long the others wait for a settler that writes to one set of columns. What cannot be written there, for lack of a right
// or because of a trigger, is tried until it can be, which may take for ever.
const asideAfter = 2 * time.Second

// run lets a settler write what there is until the settlement is closed. When ctx has ended it writes nothing more and says so.
func (s *settler) run(ctx context.Context, from *settlement) {
	for job := from.next(); job != nil; job = from.next() {
		for _, w := range job {
			w.marked = len(w.accepted)
		}
		s.together(ctx, job)
		if !s.each(ctx, from, job, 0) {
			return
		}
	}
}

// each writes the orders of a job from one of them on, each by itself. It reports false when the settler has stepped aside with one of them:
// then another one is in its place, which goes on with the rest.
func (s *settler) each(ctx context.Context, from *settlement, job []*order, first int) bool {
	for i, w := range job[first:] {
		s.state, s.aside = w.state, func() {
			other := &settler{database: s.database, metrics: s.metrics, limit: s.limit, join: s.join, joints: map[uint64]joint{}}
			from.aside(w, func() {
				if other.each(ctx, from, job, first+i+1) {
					other.run(ctx, from)
				}
			})
		}
		timer := time.AfterFunc(asideAfter, s.aside)
		started := time.Now()
		w.err = s.write(ctx, &w.outcome)
		w.took += time.Since(started)
		timer.Stop()
		aside := from.over(w)
		w.tell()
		if aside {
			return false
		}
	}
	from.done(job)
	return true
}

// aside lets another settler go on while one writes an order that does not end, if there are other columns to write to: what cannot be
// written at one destination must not keep the others waiting. Their marks may meet the locks of its rows for the time of a statement.
func (s *settlement) aside(w *order, other func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.states) == 1 || w.aside || w.over {
		return
	}
	w.aside = true
	s.states[w.state].aside++
	s.release(w)
	s.group.Go(other)
	s.changed.Broadcast()
}

// over notes that an order is written, and reports whether its settler has stepped aside with it.
func (s *settlement) over(w *order) (aside bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.over = true; w.aside {
		s.states[w.state].aside--
		s.changed.Broadcast()
	}
	return w.aside
}
