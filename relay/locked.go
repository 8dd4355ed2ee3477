package relay

import "time"

// locked is what could not be written yet, because somebody else keeps the rows locked, or something that is written with them. The
// rows stay in flight and are known as acknowledged or refused.
type locked struct {
	accepted []*row
	refused  []refusal
	trying   int       // under way
	due      time.Time // when they are tried again
	seen     time.Time // when rows were found locked last
	told     bool      // the log has told of them
}

// lockedPause is how long a row waits that somebody else keeps locked.
const lockedPause = time.Second

// carefulFor is how long no lock is waited for after one was met that did not go away.
const carefulFor = 10 * time.Second

// careful reports whether marks are to wait for no lock.
func (l *locked) careful(now time.Time) bool { return now.Before(l.seen.Add(carefulFor)) }

func (l *locked) any() bool { return len(l.accepted)+len(l.refused) > 0 }

// keepLocked puts off what the outcome could not write because of locks. It waits no longer for what is added.
func (d *dispatch) keepLocked(o *outcome, now time.Time) {
	if len(o.locked) == 0 {
		return
	}
	if !d.locked.told {
		d.locked.told = true
		d.logger.Warn("rows cannot be written because somebody else keeps them locked, or rows that a trigger or a foreign key has to do with; they are tried again until they are free",
			"rows", len(o.locked))
	}
	if d.locked.seen = now; !d.locked.any() {
		d.locked.due = now.Add(lockedPause)
	}
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

// retry returns what was locked and is to be tried again now.
func (l *locked) retry(now time.Time) (o outcome, ok bool) {
	if !l.any() || now.Before(l.due) {
		return outcome{}, false
	}
	o = outcome{accepted: l.accepted, refused: l.refused, again: againLocked, careful: l.careful(now)}
	l.trying = len(l.accepted) + len(l.refused)
	l.accepted, l.refused = nil, nil
	return o, true
}

// retried takes note that a retry is over.
func (d *dispatch) retriedLocked() {
	d.locked.trying = 0
	if d.locked.told && !d.locked.any() {
		d.locked.told = false
		d.logger.Info("rows that were locked are written now")
	}
}
