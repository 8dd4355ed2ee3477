package settle

import (
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// Writer is an engine's access to the settlement.
type Writer struct {
	*Settlement
	state   int // the set of columns that it writes to
	limits  dispatch.Limits
	measure *measure.Destination
	result  chan<- dispatch.Outcome

	rows    int // number of rows gathered
	bytes   int64
	credit  time.Duration // how long it may still wait without room
	waiting bool          // it is waiting
	looked  time.Time
}

// NewWriter makes the writer of an engine to a set of columns. The results are sent to the channel.
func (s *Settlement) NewWriter(state int, limits dispatch.Limits, to *measure.Destination, result chan<- dispatch.Outcome) *Writer {
	return &Writer{Settlement: s, state: state, limits: limits, measure: to, result: result}
}

// Write makes an engine's outcome be written. The result comes in one or several outcomes.
func (w *Writer) Write(o dispatch.Outcome) {
	s := w.Settlement
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	g, p := &s.states[w.state], piece{accepted: o.Accepted, refused: o.Refused, from: w}
	if o.Again != dispatch.Fresh {
		s.again = append(s.again, &order{Outcome: o, state: w.state, pieces: []piece{p}})
		return
	}
	w.rows, w.bytes = w.rows+p.rows(), w.bytes+p.bytes()
	g.careful = g.careful || o.Careful
	s.meeting.landed(&p, time.Now())
	g.pieces = append(g.pieces, p)
}

// full reports whether the rows gathered for a destination leave it little room.
func (w *Writer) full() bool { return w.rows > w.limits.Rows/2 || w.bytes > w.limits.Bytes/2 }

// Others returns the other sets of columns that take rows of a topic.
func (w *Writer) Others(topic string) (set uint64) {
	if w.meeting == nil {
		return 0
	}
	for i, takes := range w.meeting.takes {
		if i != w.state && i < 63 && takes(topic) {
			set |= 1 << i
		}
	}
	return set
}

// Begin notes that the destination has a row in flight.
func (w *Writer) Begin(r *dispatch.Row) {
	if w.meeting == nil || r.Others == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	set := w.meeting.flying[r.ID()]
	if set != 0 {
		set |= inStep
	}
	w.meeting.flying[r.ID()] = set | 1<<w.state
}

// End notes that the destination no longer has the row in flight. Marks that have waited for it go on when other marks
// do, since many rows may end at once.
func (w *Writer) End(r *dispatch.Row) {
	if w.meeting == nil || r.Others == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.meeting.land(w.state, r)
}

// Reached notes how far the destination has read.
func (w *Writer) Reached(upto int64) {
	if w.meeting == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.meeting.reached[w.state] = max(w.meeting.reached[w.state], upto)
}
