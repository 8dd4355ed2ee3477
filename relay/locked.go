package relay

import "time"

// locked is what could not be written yet, because somebody else keeps the rows locked. The rows stay in flight and
// are known as acknowledged or refused.
type locked struct {
	accepted []*row
	refused  []refusal
	due      time.Time // when they are tried again
	seen     time.Time // when rows were found locked last
}

// lockedPause is how long a row waits that somebody else keeps locked.
const lockedPause = time.Second

// carefulFor is how long no lock is waited for after one was met that did not go away.
const carefulFor = 10 * time.Second

// careful reports whether marks are to wait for no lock.
func (l *locked) careful(now time.Time) bool { return now.Before(l.seen.Add(carefulFor)) }

func (l *locked) any() bool { return len(l.accepted)+len(l.refused) > 0 }

// keepLocked puts off what the outcome could not write because of locks.
func (d *dispatch) keepLocked(o *outcome, now time.Time) {
	if len(o.locked) == 0 {
		return
	}
	if !d.locked.any() {
		d.logger.Warn("rows cannot be written because somebody else keeps them locked; they are tried again until they are free", "rows", len(o.locked))
	}
	d.locked.seen, d.locked.due = now, now.Add(lockedPause)
	var accepted []*row
	for _, r := range o.accepted {
		if o.locked[r.Identity()] {
			d.locked.accepted = append(d.locked.accepted, r)
		} else {
			accepted = append(accepted, r)
		}
	}
	var refused []refusal
	for _, x := range o.refused {
		if o.locked[x.row.Identity()] {
			d.locked.refused = append(d.locked.refused, x)
		} else {
			refused = append(refused, x)
		}
	}
	o.accepted, o.refused = accepted, refused
}

// retryLocked lets the rows that were locked be tried again.
func (d *dispatch) retryLocked(now time.Time) {
	if d.locked.any() && !now.Before(d.locked.due) {
		d.settle, d.refuse = append(d.settle, d.locked.accepted...), append(d.refuse, d.locked.refused...)
		d.locked.accepted, d.locked.refused = nil, nil
	}
}
