package settle

import (
	"context"
	"time"
)

// asideAfter is how long the other orders wait for a settler that writes to one set of columns. What cannot be written
// there, because of a missing privilege or a trigger, is tried until it can be written, which may take forever.
const asideAfter = 2 * time.Second

// run makes a settler write what there is until the settlement is closed. After ctx has ended it writes nothing more,
// and its results carry the error.
func (s *settler) run(ctx context.Context) {
	for job := s.next(); job != nil; job = s.next() {
		if started := time.Now(); s.joins(started) {
			s.together(ctx, job)
			s.joined(time.Since(started), time.Now())
		}
		if !s.each(ctx, job, 0) {
			return
		}
	}
}

// each writes the orders of a job from index first on, one after another. It reports false if the settler has stepped
// aside with one of them. Then another settler has taken its place and goes on with the rest.
func (s *settler) each(ctx context.Context, job []*order, first int) bool {
	for i, w := range job[first:] {
		s.others = func() {
			s.Settlement.aside(w, func() {
				if other := s.Settlement.settler(); other.each(ctx, job, first+i+1) {
					other.run(ctx)
				}
			})
		}
		timer := time.AfterFunc(asideAfter, s.others)
		started := time.Now()
		w.Err = s.write(ctx, w)
		w.Took += time.Since(started)
		timer.Stop()
		aside := s.over(w)
		w.deliver()
		if aside {
			return false
		}
	}
	s.done(job)
	return true
}

// aside makes another settler go on while this one writes an order that does not end, if there are other columns to
// write to: what cannot be written at one destination must not keep the others waiting. Their marks may meet the locks
// of its rows for the duration of a statement.
func (s *Settlement) aside(w *order, other func()) {
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

// over notes that an order is written, and reports whether its settler had stepped aside with it.
func (s *Settlement) over(w *order) (aside bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.over = true; w.aside {
		s.states[w.state].aside--
		s.changed.Broadcast()
	}
	return w.aside
}
