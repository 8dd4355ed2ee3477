package history

import (
	"fmt"
	"maps"
	"slices"
)

// A Check is one promise of the relay, or a condition without which the other checks prove nothing.
type Check string

// The checks, in the order in which they are reported.
const (
	Complete   Check = "the history is complete and the writers numbered each key without a gap"
	Nothing    Check = "every committed row was delivered, or failed for a reason"
	Ghosts     Check = "no row was delivered that was rolled back or never written"
	Unchanged  Check = "each row was delivered under its topic, key and number"
	Marked     Check = "a row that is marked as relayed was delivered"
	Ordered    Check = "first deliveries of each key are in table order"
	Explained  Check = "duplicates came only around unclean faults"
	Bounded    Check = "and no more than the rows in flight at them"
	Unspent    Check = "outages spent no attempt"
	Refused    Check = "rows that no broker takes failed at once, and were not delivered"
	Afterwards Check = "a notice came after the row that it is about"
	Unstuck    Check = "nothing was stuck after everything had healed"
	Brief      Check = "no relay kept a transaction open without a statement"
	Obedient   Check = "replicas ended only when they were asked to, and then cleanly"
	Meaningful Check = "rows were committed and delivered at all"
)

// Checks lists all checks.
var Checks = []Check{
	Nothing, Ghosts, Unchanged, Marked, Ordered, Explained, Bounded, Unspent, Refused, Afterwards, Unstuck, Brief,
	Obedient, Complete,
	Meaningful,
}

// A Violation is evidence that a check failed.
type Violation struct {
	Check       Check
	Destination string // "" for the only one, and for violations that concern all
	Text        string
	Evidence    []string // lines: what is known about the row, its key and the faults around it
}

// Judge returns everything that contradicts the promises, or nothing if they were kept.
func (h *History) Judge() []Violation {
	j := &judge{
		History: h, rows: map[string]*Row{}, table: map[string]*Final{},
		first: map[string]*Delivery{}, byID: map[string][]*Delivery{}, byKey: map[string][]*Delivery{},
	}
	for i := range h.Rows {
		j.rows[h.Rows[i].ID] = &h.Rows[i]
	}
	for i := range h.Table {
		j.table[h.Table[i].ID] = &h.Table[i]
	}
	j.arrivals()
	j.complete()
	j.outcomes()
	j.order()
	j.duplicates()
	j.processes()
	return j.violations
}

// judge is the state of judging one history.
type judge struct {
	*History
	rows       map[string]*Row
	table      map[string]*Final
	first      map[string]*Delivery // by id
	again      []*Delivery          // every later delivery of the same id
	byID       map[string][]*Delivery
	byKey      map[string][]*Delivery // the writer's key, of rows that have one
	violations []Violation
}

func (j *judge) found(c Check, evidence []string, format string, args ...any) {
	j.violations = append(j.violations, Violation{Check: c, Text: fmt.Sprintf(format, args...), Evidence: evidence})
}

// arrivals finds the first delivery of each row, and checks the contents of each delivery.
func (j *judge) arrivals() {
	for i := range j.Deliveries {
		d := &j.Deliveries[i]
		j.byID[d.ID] = append(j.byID[d.ID], d)
		switch before := j.first[d.ID]; {
		case before == nil:
			j.first[d.ID] = d
		case before.Stream != d.Stream && d.At.Before(before.At):
			j.first[d.ID] = d
			j.again = append(j.again, before)
		default:
			j.again = append(j.again, d)
		}
		r := j.rows[d.ID]
		if r != nil && r.Key != "" {
			j.byKey[r.Key] = append(j.byKey[r.Key], d)
		}
		switch {
		case r == nil:
			j.found(Ghosts, nil, "%s was delivered and no writer knows it: %s", d.ID, d)
		case r.Outcome == RolledBack:
			j.found(Ghosts, j.about(r), "%s was delivered and its transaction rolled back", d.ID)
		case r.Outcome == Elsewhere:
			j.found(Ghosts, j.about(r), "%s was delivered and is not for this destination", d.ID)
		case d.Key != r.Key || d.Topic != r.Topic || d.Body != Body{ID: r.ID, Number: r.Number}:
			j.found(Unchanged, j.about(r), "%s was delivered as %s", d.ID, d)
		}
	}
	if len(j.first) == 0 && !j.MayBeEmpty {
		j.found(Meaningful, nil, "%d rows were written and nothing was delivered", len(j.Rows))
	}
}

// complete looks for gaps in the history itself.
func (j *judge) complete() {
	numbers := map[string][]int{}
	for i := range j.Rows {
		switch r := &j.Rows[i]; r.Outcome {
		case Unknown:
			j.found(Complete, j.about(r), "nobody knows whether %s was committed", r.ID)
		case Committed, Elsewhere:
			if r.Key != "" {
				numbers[r.Key] = append(numbers[r.Key], r.Number)
			}
			if j.table[r.ID] == nil && !j.Deletes {
				j.found(Complete, j.about(r), "%s was committed and is not in the table", r.ID)
			}
		case RolledBack:
			if j.table[r.ID] != nil {
				j.found(Complete, j.about(r), "%s was rolled back and is in the table", r.ID)
			}
		case Withdrawn: // the state of the row belongs to a later failure
		}
	}
	for _, key := range slices.Sorted(maps.Keys(numbers)) {
		slices.Sort(numbers[key])
		for i, n := range numbers[key] {
			if n != i+1 {
				j.found(Complete, nil, "key %s: the committed rows are numbered %d where %d comes next", key, n, i+1)
				break
			}
		}
	}
}

// processes checks what the relays did besides relaying.
func (j *judge) processes() {
	for _, held := range j.Held {
		j.found(Brief, nil, "%s kept a transaction open for %v after: %s", held.Session, held.For, held.Query)
	}
	for _, exit := range j.Exits {
		j.found(Obedient, nil, "%s %s", exit.Replica, exit.How)
	}
}
