package dispatch

import (
	"errors"
	"time"
)

// locked holds what could not be written yet because another session keeps the rows locked, or something that is
// written with them. The rows stay in flight and are known as accepted or refused.
type locked struct {
	accepted []*Row
	refused  []Refusal
	trying   int       // rows that are being tried again
	due      time.Time // when the rows are tried again
	seen     time.Time // when rows were last found locked
	logged   bool      // the log has said that rows are locked
}

// errLocked is why locked rows cannot be written.
var errLocked = errors.New("another session keeps them locked, or rows that a trigger or a foreign key has to do with")

// lockedPause is how long a row waits that another session keeps locked.
const lockedPause = time.Second

// carefulFor is how long marks do not wait for locks after a lock was met that was not released.
const carefulFor = 10 * time.Second

// careful reports whether marks are not to wait for locks.
func (l *locked) careful(now time.Time) bool { return now.Before(l.seen.Add(carefulFor)) }

func (l *locked) any() bool { return len(l.accepted)+len(l.refused) > 0 }

// keepLocked keeps the rows that could not be written because of locks. Rows that are added do not postpone the next
// try.
func (d *Dispatch) keepLocked(o *Outcome, now time.Time) {
	if len(o.Effects) == 0 {
		return
	}
	waiting := d.locked.any()
	isLocked := func(r *Row) bool { return o.Effects[r.Identity()] == Unfree }
	accepted, refused := o.Accepted, o.Refused
	o.Accepted, o.Refused = nil, nil
	n := 0
	for _, r := range accepted {
		if isLocked(r) {
			d.locked.accepted = append(d.locked.accepted, r)
			n++
		} else {
			o.Accepted = append(o.Accepted, r)
		}
	}
	for _, x := range refused {
		if isLocked(x.Row) {
			if x.Row.wait == nil {
				d.awaitWrite(x.Row)
				d.failureOver(x.Row, now)
			}
			d.locked.refused = append(d.locked.refused, x)
			n++
		} else {
			o.Refused = append(o.Refused, x)
		}
	}
	if n == 0 {
		return
	}
	if !d.locked.logged {
		d.locked.logged = true
		d.Logger.Warn("rows cannot be written because another session keeps them locked, or rows that a trigger or a foreign key has to do "+
			"with; they are tried again until they are free",
			"rows", n)
	}
	if d.locked.seen = now; !waiting {
		d.locked.due = now.Add(lockedPause)
	}
}

// retry returns the locked rows that are to be tried again now.
func (l *locked) retry(now time.Time) (o Outcome, ok bool) {
	if !l.any() || now.Before(l.due) {
		return Outcome{}, false
	}
	o = Outcome{Accepted: l.accepted, Refused: l.refused, Again: AgainLocked, Careful: l.careful(now)}
	l.trying = len(l.accepted) + len(l.refused)
	l.accepted, l.refused = nil, nil
	return o, true
}

// retriedLocked notes that a retry of locked rows is over.
func (d *Dispatch) retriedLocked() {
	d.locked.trying = 0
	if d.locked.logged && !d.locked.any() {
		d.locked.logged = false
		d.Logger.Info("rows that were locked are written now")
	}
}
