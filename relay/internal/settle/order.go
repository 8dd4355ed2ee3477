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

// piece is an engine's share of an outcome.
type piece struct {
	accepted []*engine.Row
	refused  []engine.Refusal
	from     *Writer
}

// add adds a piece to the order.
func (w *order) add(p piece) {
	w.Accepted, w.Refused = append(w.Accepted, p.accepted...), append(w.Refused, p.refused...)
	if i := slices.IndexFunc(w.pieces, func(other piece) bool { return other.from == p.from }); i >= 0 {
		there := &w.pieces[i]
		there.accepted, there.refused = append(there.accepted, p.accepted...), append(there.refused, p.refused...)
		return
	}
	w.pieces = append(w.pieces, p)
}

// deliver sends each engine its piece of what was written.
func (w *order) deliver() {
	for _, p := range w.pieces {
		o := w.Outcome
		o.Accepted, o.Refused = p.accepted, p.refused
		if len(w.pieces) > 1 {
			o.Effects = p.among(w.Effects)
		}
		p.from.result <- o
	}
}

// among returns the effects on the rows of the piece.
func (p *piece) among(all map[string]engine.Effect) map[string]engine.Effect {
	own := map[string]engine.Effect{}
	if len(all) == 0 {
		return own
	}
	for r := range p.each {
		if effect, has := all[r.Identity()]; has {
			own[r.Identity()] = effect
		}
	}
	return own
}

// stage records how long a statement took, for each destination whose rows it wrote.
func (w *order) stage(took time.Duration) {
	for _, p := range w.pieces {
		p.from.measure.Stage(measure.StageSettle, took)
	}
}

func (p *piece) rows() int { return len(p.accepted) + len(p.refused) }

// each yields the rows of the piece.
func (p *piece) each(yield func(*engine.Row) bool) {
	for _, r := range p.accepted {
		if !yield(r) {
			return
		}
	}
	for _, x := range p.refused {
		if !yield(x.Row) {
			return
		}
	}
}
