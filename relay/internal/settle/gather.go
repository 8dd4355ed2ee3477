package settle

import (
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
)

// ready counts the rows that can be written now. The caller holds mu.
func (s *Settlement) ready(now time.Time) (n int) {
	for i := range s.states {
		if s.states[i].aside > 0 {
			continue
		}
		for _, p := range s.states[i].pieces {
			goes, _ := s.split(p, now)
			n += goes.rows()
		}
	}
	return n
}

// split divides a piece into the rows that can be written now, and the others: rows that another settler has, and rows
// whose marks wait. The caller holds mu.
func (s *Settlement) split(p piece, now time.Time) (goes, stays piece) {
	goes, stays = p, piece{from: p.from, until: p.until}
	if s.meeting == nil {
		return goes, stays
	}
	waits := s.meeting.waits(&p, now)
	goes.accepted, stays.accepted = apart(p.accepted, func(r *dispatch.Row) bool {
		return s.has(r) || waits && s.meeting.awaited(r) != 0
	})
	goes.refused, stays.refused = apart(p.refused, func(x dispatch.Refusal) bool { return s.has(x.Row) })
	return goes, stays
}

// gather takes what is to be written to a set of columns. The caller holds mu.
func (s *Settlement) gather(state int, now time.Time) *order {
	g := &s.states[state]
	w := &order{Outcome: dispatch.Outcome{Careful: g.careful}, state: state}
	var left []piece
	for _, p := range g.pieces {
		goes, stays := s.split(p, now)
		if goes.rows() > 0 {
			s.meeting.missed(&goes)
			w.add(goes)
		}
		if stays.rows() > 0 {
			left = append(left, stays)
		}
	}
	for _, p := range w.pieces {
		p.from.rows, p.from.bytes = p.from.rows-p.rows(), p.from.bytes-p.bytes()
	}
	g.pieces, g.careful = left, g.careful && left != nil
	return w
}

// apart returns the items for which stays is false, and the others.
func apart[T any](items []T, stays func(T) bool) (goes, stay []T) {
	for _, item := range items {
		if stays(item) {
			stay = append(stay, item)
		} else {
			goes = append(goes, item)
		}
	}
	return goes, stay
}
