package engine

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// unwritten are rows that could not be written. They stay in flight, so that they are not published again.
type unwritten struct {
	accepted []*Row
	refused  []Refusal
	trying   int       // rows that are being tried again
	bytes    int64     // of all of these rows
	most     int       // rows that are tried at once; 0 for all
	due      time.Time // when they are tried again
	why      error     // the database's last answer
}

const (
	lockedPause   = time.Second
	rejectedPause = 10 * time.Second
	// rejectedBatch is how many rows are tried at once that the database did not mark. Finding the bad ones takes up to
	// two statements for each. While none is bad, the next batch follows at once and has twice the size.
	rejectedBatch = 32
	// carefulFor is how long marks do not wait for locks after a lock was met that was not released.
	carefulFor = 10 * time.Second
)

// errLocked is why locked rows cannot be written.
var errLocked = errors.New("locked by another session")

func (u *unwritten) rows() int { return len(u.accepted) + len(u.refused) + u.trying }
func (u *unwritten) any() bool { return len(u.accepted)+len(u.refused) > 0 }

// retry returns the rows to try again now. Refusals go together with the first accepted rows: there are few of them,
// since each key has one at most.
func (u *unwritten) retry(now time.Time) (o Outcome, ok bool) {
	if !u.any() || now.Before(u.due) {
		return Outcome{}, false
	}
	n := len(u.accepted)
	if u.most > 0 {
		n = min(n, u.most)
	}
	o = Outcome{Accepted: u.accepted[:n:n], Refused: u.refused, Again: true}
	u.accepted, u.refused, u.trying = u.accepted[n:], nil, o.Number()
	return o, true
}

// retrying reports whether rows that could not be written are being tried again.
func (e *Engine) retrying() bool { return e.locked.trying+e.rejected.trying > 0 }

// keep keeps rows that could not be written. They do not postpone the next try of those that are already kept.
func (u *unwritten) keep(o Outcome, why error, due time.Time) {
	if o.Number() == 0 {
		return
	}
	if !u.any() {
		u.due = due
	}
	for r := range o.Rows {
		u.bytes += r.Size
	}
	u.accepted, u.refused = append(u.accepted, o.Accepted...), append(u.refused, o.Refused...)
	u.why = why
}

// letGo forgets the rows of a leaving shard that the database did not mark, and once it is late also those that
// another session keeps locked. They are pending in the table, and the next owner publishes them again. No replica
// reads a leaving shard, so a single row must not keep it for ever.
func (e *Engine) letGo(shard int, late bool) {
	n := 0
	var of *unwritten
	gone := func(r *Row) bool {
		if r.Shard != shard {
			return false
		}
		n++
		of.bytes -= r.Size
		e.land(r)
		e.idle(r.key)
		return true
	}
	refusal := func(x Refusal) bool { // others of the key may be written now
		k := x.Row.key
		if !gone(x.Row) {
			return false
		}
		if k.state == writing {
			if k.writes--; k.writes == 0 {
				e.reopen(k)
			}
		}
		return true
	}
	for _, of = range []*unwritten{&e.rejected, &e.locked} {
		if of == &e.rejected || late {
			of.accepted = slices.DeleteFunc(of.accepted, gone)
			of.refused = slices.DeleteFunc(of.refused, refusal)
		}
	}
	if n > 0 {
		e.Logger.Warn(
			"shards are released although the outcome of some of their rows could not be written; "+
				"their next owner publishes these rows again",
			"rows", n)
	}
}

// stuck returns how many rows in flight can be neither written nor published.
func (e *Engine) stuck() int { return e.locked.rows() + e.rejected.rows() }

// WaitsFor counts the rows that are not written because another session keeps them locked.
func (e *Engine) WaitsFor() int { return len(e.locked.accepted) + len(e.locked.refused) }

// why returns why rows in flight cannot be written.
func (e *Engine) why() error {
	if e.rejected.rows() > 0 {
		return e.rejected.why
	}
	if e.held[CauseMark] > 0 {
		return e.unmarkable
	}
	if e.locked.rows() > 0 {
		return cmp.Or(e.locked.why, errLocked)
	}
	return nil
}
