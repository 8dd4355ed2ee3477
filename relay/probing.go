package relay

// probing chooses what tries a destination that is held: the first rows of a few keys. More would be handed over each time for nothing.
// One alone may go to the very part of the broker that does not answer, while all others do.
type probing struct {
	active bool
	keys   []key
	left   []*row // of keys that are in the probe already
}

const (
	probeKeys = 10
	probeLeft = 1000 // rows that are looked at in vain
)

// full reports whether no more rows are wanted.
func (p *probing) full() bool {
	return p.active && (len(p.keys) == probeKeys || len(p.left) == probeLeft)
}

// leaves takes a row into the probe, or reports that it stays behind another one of its key.
func (p *probing) leaves(r *row) bool {
	if !p.active {
		return false
	}
	for _, k := range p.keys {
		if k == r.key {
			p.left = append(p.left, r)
			return true
		}
	}
	p.keys = append(p.keys, r.key)
	return false
}
