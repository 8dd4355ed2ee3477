package settle

import (
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// Writer is an engine's access to the settlement.
type Writer struct {
	*Settlement
	state   int // the set of columns that it writes to
	measure *measure.Destination
	result  chan<- engine.Outcome
}

// NewWriter makes the writer of an engine to a set of columns. The results are sent to the channel.
func (s *Settlement) NewWriter(state int, to *measure.Destination, result chan<- engine.Outcome) *Writer {
	return &Writer{Settlement: s, state: state, measure: to, result: result}
}

// Write makes an engine's outcome be written. The result comes in one or several outcomes.
func (w *Writer) Write(o engine.Outcome) {
	s := w.Settlement
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	g, p := &s.states[w.state], piece{Outcome: o, from: w}
	if o.Again {
		s.again = append(s.again, &order{Outcome: o, state: w.state, pieces: []piece{p}})
		return
	}
	g.careful = g.careful || o.Careful
	g.pieces = append(g.pieces, p)
}
