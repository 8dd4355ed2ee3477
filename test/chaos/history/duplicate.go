package history

import (
	"cmp"
	"slices"
	"time"
)

// A trouble is a period in which a row may be delivered that is delivered again later, with the unclean faults that
// cause it. The repetition may come much later, because the next owner begins at the oldest pending row.
type trouble struct {
	began, ended time.Time
	faults       []Fault
	duplicates   int
}

// bound is the number of rows that may be delivered again because of the trouble.
func (t *trouble) bound(maxInFlight int) int {
	rows := 0
	for _, f := range t.faults {
		rows += f.Replicas * maxInFlight
	}
	return rows
}

// troubles joins the unclean faults whose times touch.
func (j *judge) troubles() []*trouble {
	unclean := slices.DeleteFunc(slices.Clone(j.Faults), func(f Fault) bool { return f.Replicas == 0 })
	slices.SortFunc(unclean, func(a, b Fault) int { return cmp.Compare(a.Began.UnixNano(), b.Began.UnixNano()) })
	var all []*trouble
	for _, f := range unclean {
		began, ended := f.Began.Add(-j.Grace), f.Ended.Add(j.Grace)
		if n := len(all); n > 0 && !began.After(all[n-1].ended) {
			last := all[n-1]
			last.faults = append(last.faults, f)
			if ended.After(last.ended) {
				last.ended = ended
			}
			continue
		}
		all = append(all, &trouble{began: began, ended: ended, faults: []Fault{f}})
	}
	return all
}

func (j *judge) duplicates() {
	troubles := j.troubles()
	for _, d := range j.again {
		first := j.first[d.ID].At
		i := slices.IndexFunc(troubles, func(t *trouble) bool {
			return !d.At.Before(t.faults[0].Began) && !first.Before(t.began) && !first.After(t.ended)
		})
		if i >= 0 {
			troubles[i].duplicates++
			continue
		}
		j.found(Explained, append(j.about(j.rows[d.ID]), j.faultsAround(first)...),
			"%s came again as %s, and was not in flight at an unclean fault", d.ID, d)
	}
	for _, t := range troubles {
		if bound := t.bound(j.MaxInFlight); t.duplicates > bound {
			var evidence []string
			for _, f := range t.faults {
				evidence = append(evidence, f.String())
			}
			j.found(Bounded, evidence, "%d duplicates came within %v, and at most %d rows were in flight",
				t.duplicates, t.ended.Sub(t.began).Round(time.Millisecond), bound)
		}
	}
}

// Duplicates returns the number of deliveries that repeat an earlier one.
func (h *History) Duplicates() int {
	seen := map[string]bool{}
	for i := range h.Deliveries {
		seen[h.Deliveries[i].ID] = true
	}
	return len(h.Deliveries) - len(seen)
}
