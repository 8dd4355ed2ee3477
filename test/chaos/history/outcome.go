package history

// outcomes compares the state of each committed row with what was delivered.
func (j *judge) outcomes() {
	for i := range j.Rows {
		r := &j.Rows[i]
		if r.Outcome != Committed {
			continue
		}
		final := j.table[r.ID]
		if final == nil {
			if !j.Deletes {
				continue // complete has reported it
			}
			final = &Final{ID: r.ID, Relayed: true, Attempt: 1}
		}
		if r.Bad != "" {
			j.bad(r, final)
			continue
		}
		j.good(r, final)
	}
}

// good checks a row that every broker takes.
func (j *judge) good(r *Row, final *Final) {
	delivered := j.first[r.ID] != nil
	switch {
	case final.Failed:
		j.found(Nothing, j.about(r), "%s failed, and nothing was wrong with it: %s", r.ID, final.Error)
	case final.Pending():
		j.found(Unstuck, j.about(r), "%s is still pending (delivered: %t, attempt %d, %s)", r.ID, delivered,
			final.Attempt,
			final.Error)
	case !delivered:
		j.found(Marked, j.about(r), "%s is marked and was never delivered", r.ID)
	}
	if !delivered && !final.Failed {
		j.found(Nothing, j.about(r), "%s was committed and never delivered", r.ID)
	}
	if final.Attempt != 1 || final.Error != "" {
		j.found(Unspent, j.about(r), "%s has spent attempts: the next is %d, after %q", r.ID, final.Attempt,
			final.Error)
	}
}

// bad checks a row that no broker takes.
func (j *judge) bad(r *Row, final *Final) {
	switch {
	case j.first[r.ID] != nil:
		j.found(Refused, j.about(r), "%s (%s) was delivered", r.ID, r.Bad)
	case final.Pending():
		j.found(Unstuck, j.about(r), "%s (%s) is still pending", r.ID, r.Bad)
	case final.Relayed:
		j.found(Marked, j.about(r), "%s (%s) is marked and was never delivered", r.ID, r.Bad)
	case final.Attempt != 2 || final.Error == "":
		j.found(Refused, j.about(r), "%s (%s) failed with attempt %d and the error %q", r.ID, r.Bad, final.Attempt,
			final.Error)
	}
}
