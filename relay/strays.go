package relay

import "github.com/outbox-relay/outbox-relay/internal/outbox"

// strays tells when the order of the table has begun anew below what has been walked: the table was emptied and its sequence
// with it, the sequence was set back, or one row had a value far beyond all others. The sweep alone finds rows then. When it has, the walk
// forgets how far it has been. If the next sweeps find some all the same, rows have such values all the time, and it is done more rarely.
type strays struct {
	found  bool // by the present sweep
	sweeps int  // in a row that found some
	enough int
}

const (
	fewStrays  = 1
	mostStrays = 64
)

// swept notes that a sweep has come to its end, and reports whether the walk is to begin anew.
func (s *strays) swept() bool {
	found := s.found
	if s.found = false; !found {
		s.sweeps, s.enough = 0, fewStrays
		return false
	}
	if s.sweeps++; s.sweeps < max(s.enough, fewStrays) {
		return false
	}
	s.sweeps, s.enough = 0, min(2*max(s.enough, fewStrays), mostStrays)
	return true
}

// tookBefore reports whether one of these rows, which were just read, has been taken although it lies before an ordinal.
func (d *dispatch) tookBefore(rows []outbox.Row, ordinal int64) bool {
	for i := range rows {
		r := &rows[i]
		if r.Position.Unordered() || r.Position.Ordinal >= ordinal {
			continue
		}
		if taken := d.inFlight[r.Identity()]; taken != nil && taken.Row == r {
			return true
		}
	}
	return false
}
