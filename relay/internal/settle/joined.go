package settle

import "time"

const (
	// Marks for several destinations at once that took longJoin are followed by a period without any, which is apartShare
	// times as long.
	longJoin   = 500 * time.Millisecond
	apartShare = 20
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
