package settle

import "github.com/outbox-relay/outbox-relay/relay/internal/engine"

// ready counts the rows that can be written now. The caller holds mu.
func (s *Settlement) ready() (n int) {
	for i := range s.states {
		if s.states[i].aside > 0 {
			continue
		}
		for _, p := range s.states[i].pieces {
			goes, _ := s.split(p)
			n += goes.Number()
		}
	}
	return n
}

// split divides a piece into the rows that can be written now, and those that another settler has. The caller holds mu.
func (s *Settlement) split(p piece) (goes, stays piece) {
	goes, stays = p, piece{from: p.from}
	if s.taken == nil {
		return goes, stays
	}
	goes.Accepted, stays.Accepted = apart(p.Accepted, s.has)
	goes.Refused, stays.Refused = apart(p.Refused, func(x engine.Refusal) bool { return s.has(x.Row) })
	return goes, stays
}

// gather takes what is to be written to a set of columns. The caller holds mu.
func (s *Settlement) gather(state int) *order {
	g := &s.states[state]
	w := &order{Outcome: engine.Outcome{Careful: g.careful}, state: state}
	var left []piece
	for _, p := range g.pieces {
		goes, stays := s.split(p)
		if goes.Number() > 0 {
			w.add(goes)
		}
		if stays.Number() > 0 {
			left = append(left, stays)
		}
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
