package settle

import "time"

const (
	longJoin   = 500 * time.Millisecond // duration from which marks for several destinations are followed by a period without any
	apartShare = 20                     // length of that period, as a multiple of the duration
)

// joins reports whether rows are marked for several destinations at once, if they lie there at the same time.
func (s *Settlement) joins(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.states) > 1 && !now.Before(s.apart)
}

// joined records how long it took to mark rows for several destinations at once. If that was long, perhaps because of a
// trigger on the columns of one of them, each destination marks its rows by itself for some time, so that the others
// are not slowed down.
func (s *Settlement) joined(took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if took >= longJoin {
		s.apart = now.Add(apartShare * took)
	}
}
