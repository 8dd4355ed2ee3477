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

// putOff lets the blocks whose re-read has failed wait. If its time was over, they rest in proportion to what it took; but once it may
// have been the database that did not answer at all.
func (d *dispatch) putOff(reread []*block, over, answered bool, took time.Duration, now time.Time) {
	for _, b := range reread {
		if b.phase != reading {
			continue // it waits again
		}
		b.overtime++
		until := now.Add(pause(b.overtime))
		if over && (answered || b.overtime > 1) {
			until = now.Add(restShare * took)
		}
		if h := b.hold; h != nil {
			h.until = maxTime(h.until, until)
			d.blocks.waitFor(b, h)
		} else {
			d.blocks.waitUntil(b, until)
		}
	}
}
