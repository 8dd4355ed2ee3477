package settle

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// order is an outcome that a settler writes, for the rows of one or several engines.
type order struct {
	engine.Outcome
	state  int // number of the set of columns that is written
	pieces []piece
	waits  int  // statements that met a lock through a trigger or a foreign key
	aside  bool // its settler has stepped aside
	over   bool // it has been written
}

// piece is an engine's share of an outcome, of which only the rows are used.
type piece struct {
	engine.Outcome
	from *Writer
}

// add adds a piece to the order.
func (w *order) add(p piece) {
	w.Accepted, w.Refused = append(w.Accepted, p.Accepted...), append(w.Refused, p.Refused...)
	if i := slices.IndexFunc(w.pieces, func(other piece) bool { return other.from == p.from }); i >= 0 {
		there := &w.pieces[i]
		there.Accepted, there.Refused = append(there.Accepted, p.Accepted...), append(there.Refused, p.Refused...)
		return
	}
	w.pieces = append(w.pieces, p)
}

// all yields the rows of all pieces.
func (w *order) all(yield func(*engine.Row) bool) {
	for _, p := range w.pieces {
		for r := range p.Rows {
			if !yield(r) {
				return
			}
		}
	}
}

// deliver sends each engine its piece of what was written, with the effects on its rows.
func (w *order) deliver() {
	for _, p := range w.pieces {
		o := w.Outcome
		o.Accepted, o.Refused = p.Accepted, p.Refused
		if len(w.pieces) > 1 && len(w.Effects) > 0 {
			o.Effects = map[string]engine.Effect{}
			for r := range p.Rows {
				if effect, has := w.Effects[r.Identity()]; has {
					o.Effects[r.Identity()] = effect
				}
			}
		}
		p.from.result <- o
	}
}

// stage records how long a statement took, for each destination whose rows it wrote.
func (w *order) stage(took time.Duration) {
	for _, p := range w.pieces {
		p.from.measure.Stage(measure.StageSettle, took)
	}
}
