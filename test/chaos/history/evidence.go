package history

import (
	"fmt"
	"slices"
	"time"
)

const (
	clock     = "15:04:05.000"
	excerpt   = 4               // number of deliveries shown before and after the one at fault
	nearFault = 5 * time.Second // faults within this distance of an event are shown with it
)

func (o Outcome) String() string {
	return [...]string{"unknown", "committed", "rolled back", "not for this destination", "cleared"}[o]
}

func (d *Delivery) String() string {
	return fmt.Sprintf("%s #%d in %s at %s, topic %s, key %q, number %d", d.ID, d.Offset, d.Stream, d.At.Format(clock),
		d.Topic, d.Key,
		d.Body.Number)
}

func (f Fault) String() string {
	kind := "clean"
	if f.Replicas > 0 {
		kind = fmt.Sprintf("unclean for %d", f.Replicas)
	}
	return fmt.Sprintf("fault %s to %s: %s (%s)", f.Began.Format(clock), f.Ended.Format(clock), f.Name, kind)
}

// about lists everything that is known about a row.
func (j *judge) about(r *Row) []string {
	if r == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("row %s: transaction %d %s, topic %s, key %q, number %d", r.ID, r.Transaction,
		r.Outcome,
		r.Topic, r.Key,
		r.Number)}
	if final := j.table[r.ID]; final != nil {
		lines = append(lines,
			fmt.Sprintf("in the table: relayed %t, failed %t, attempt %d, last error %q", final.Relayed, final.Failed,
				final.Attempt, final.Error))
	}
	for _, d := range j.byID[r.ID] {
		lines = append(lines, "delivered: "+d.String())
	}
	return lines
}

// around shows the deliveries of a key around one of them, including duplicates, and the faults near it.
func (j *judge) around(key string, at *Delivery) []string {
	all := j.byKey[key]
	place := slices.Index(all, at)
	var lines []string
	for _, d := range all[max(0, place-excerpt):min(len(all), place+excerpt+1)] {
		again := ""
		if j.first[d.ID] != d {
			again = ", again"
		}
		lines = append(lines, fmt.Sprintf("transaction %d: %s%s", j.rows[d.ID].Transaction, d, again))
	}
	return append(lines, j.faultsAround(at.At)...)
}

func (j *judge) faultsAround(at time.Time) []string {
	var lines []string
	for _, f := range j.Faults {
		if !at.Before(f.Began.Add(-nearFault)) && !at.After(f.Ended.Add(nearFault)) {
			lines = append(lines, f.String())
		}
	}
	slices.Sort(lines)
	return lines
}
