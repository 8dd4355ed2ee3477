package ledger

import "slices"

// A Fault is a way in which the arrivals can differ from the commits.
type Fault string

// The faults that Check looks for.
const (
	Missing     Fault = "committed, but never arrived"
	Ghost       Fault = "rolled back, but arrived"
	Stranger    Fault = "arrived, but the application never wrote it"
	Duplicate   Fault = "arrived more than once"
	Reordered   Fault = "arrived after a younger row of its key"
	Elsewhere   Fault = "arrived where it does not belong"
	Unexplained Fault = "arrived as a dead letter that does not say why"
	Changed     Fault = "arrived with another key or payload"
)

// AllFaults lists all faults, the worst first.
var AllFaults = []Fault{Missing, Ghost, Stranger, Elsewhere, Unexplained, Reordered, Changed, Duplicate}

// Check compares what arrived with what was committed and returns the ids at fault. The result is empty when exactly
// the committed rows arrived, each once, unchanged, and the rows of each key in table order.
func (l *Ledger) Check() map[Fault][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	faults := map[Fault][]string{}
	found := func(f Fault, id string) { faults[f] = append(faults[f], id) }

	seen := map[string]bool{}
	youngest := map[string]int64{} // seq, by key
	for _, a := range l.arrivals {
		if seen[a.ID] {
			found(Duplicate, a.ID)
			continue // only first deliveries have an order
		}
		seen[a.ID] = true
		e := l.rows[a.ID]
		if e == nil {
			found(Stranger, a.ID)
			continue
		}
		if e.outcome != committed {
			found(Ghost, a.ID)
			continue
		}
		if !l.wants(e.Row) {
			found(Elsewhere, a.ID)
			continue
		}
		if l.Dead && a.Why == "" {
			found(Unexplained, a.ID)
		}
		if a.Key != e.Key && !l.Keyless || a.Payload != e.Payload {
			found(Changed, a.ID)
		}
		if e.Seq < youngest[e.Key] {
			found(Reordered, a.ID)
		}
		youngest[e.Key] = max(youngest[e.Key], e.Seq)
	}
	for id, e := range l.rows {
		if e.outcome == committed && l.wants(e.Row) && !seen[id] {
			found(Missing, id)
		}
	}
	slices.Sort(faults[Missing]) // a map has no order
	return faults
}
