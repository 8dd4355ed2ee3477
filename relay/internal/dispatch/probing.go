package dispatch

import "slices"

// probing chooses the rows that try a destination in an outage: the first rows of a few keys. More rows would be handed
// over each time in vain. A single row may go to the one part of the broker that does not answer while all others do.
type probing struct {
	active bool
	keys   []key
	left   []*Row // rows that stay in the queue: further rows of keys that are in the probe already, and of keys of which a row is failing
}

const (
	probeKeys = 10
	probeLeft = 1000 // further rows that are looked at
)

// full reports whether no more rows are wanted.
func (p *probing) full() bool {
	return len(p.left) == probeLeft || p.active && len(p.keys) == probeKeys
}

// leaves takes a row into the probe, or reports that the row stays in the queue because the probe has a row of its key.
func (p *probing) leaves(r *Row) bool {
	if !p.active {
		return false
	}
	if slices.Contains(p.keys, r.key) {
		p.left = append(p.left, r)
		return true
	}
	p.keys = append(p.keys, r.key)
	return false
}
