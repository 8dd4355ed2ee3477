package relay

import (
	"context"
	"math/bits"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// joint marks rows for several destinations at once; [outbox.Joint] is it, and the tests' simulation.
type joint interface {
	Settle(context.Context, []*outbox.Row) (all bool, err error)
}

// together returns what marks rows in the columns of several views of a table, nil if nothing does.
func together(views []Table) joint {
	var tables []*outbox.Table
	for _, view := range views {
		tables = append(tables, view.(*outbox.Table))
	}
	if j := outbox.Together(tables); j != nil {
		return j
	}
	return nil
}

// together marks the rows that several destinations have accepted, each with one statement for all of them. What that does not write, of
// which one mark was there already or something is in the way, is left to be written for each destination by itself.
func (s *settler) together(ctx context.Context, job []*order) {
	if len(job) < 2 || s.join == nil || slices.ContainsFunc(job, func(w *order) bool { return w.careful || w.state >= 64 }) {
		return
	}
	sets := map[string]uint64{} // of states, by identity
	for _, w := range job {
		for _, r := range w.accepted {
			sets[r.Identity()] |= 1 << w.state
		}
	}
	rows := map[uint64][]*outbox.Row{}
	for _, w := range job {
		for _, r := range w.accepted {
			if set := sets[r.Identity()]; bits.OnesCount64(set) > 1 && bits.TrailingZeros64(set) == w.state {
				rows[set] = append(rows[set], r.Row)
			}
		}
	}
	for set, rows := range rows {
		started := time.Now()
		all, err := s.jointly(ctx, job, set, rows)
		took := time.Since(started)
		for _, w := range job {
			if set&(1<<w.state) == 0 {
				continue
			}
			w.careful = w.careful || outbox.Locked(err)
			if w.took += took; all {
				w.accepted = slices.DeleteFunc(w.accepted, func(r *row) bool { return sets[r.Identity()] == set })
			}
		}
	}
}

// jointly marks rows for a set of destinations and reports whether it has marked all of them.
func (s *settler) jointly(ctx context.Context, job []*order, set uint64, rows []*outbox.Row) (all bool, err error) {
	j, known := s.joints[set]
	if !known {
		var views []Table
		for _, w := range job {
			if set&(1<<w.state) != 0 {
				views = append(views, w.table)
			}
		}
		j = s.join(views)
		s.joints[set] = j
	}
	if j == nil {
		return false, nil
	}
	n := len(rows)
	if s.most > 0 {
		n = min(n, s.most)
	}
	all = true
	for part := range slices.Chunk(rows, n) {
		limited, cancel := context.WithTimeout(ctx, s.limit)
		started := time.Now()
		done, err := j.Settle(limited, part)
		cancel()
		for _, w := range job {
			for _, d := range w.destinations() {
				if set&(1<<w.state) != 0 {
					s.metrics.stage(d, stageSettle, time.Since(started))
				}
			}
		}
		if all = all && done; err != nil {
			return false, err
		}
		for _, w := range job {
			if set&(1<<w.state) != 0 {
				s.database.wrote(w.state, nil)
			}
		}
	}
	return all, nil
}
