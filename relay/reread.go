package relay

import "time"

// rereads returns blocked keys whose time has come, all with a key or all without, to be read again.
func (d *dispatch) rereads(now time.Time) []*block {
	d.dropVoid() // first: a row that is dropped may be its key's head
	d.blocks.collect(now)
	d.probe(now)
	return d.blocks.next(rereadKeys)
}

// rereadKeys is how many keys one read asks for.
const rereadKeys = 64

// nextReread returns when a blocked key or a hold has to be looked at again by a re-read.
func (d *dispatch) nextReread() (time.Time, bool) {
	var next earliest
	if len(d.blocks.ready) > 0 {
		return next.time, true
	}
	if len(d.blocks.due) > 0 {
		next.consider(d.blocks.due[0].due)
	}
	if len(d.blocks.probes) > 0 {
		next.consider(d.blocks.probes[0].until)
	}
	if d.overflow.active() {
		next.consider(d.overflow.until)
	}
	return next.time, !next.time.IsZero()
}
