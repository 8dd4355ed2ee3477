package engine

import (
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// Rows that were published and whose outcome cannot be written are set aside here. There are two kinds, since they end
// in different ways. A locked row is free again once another session's transaction ends, mostly within a second: all of
// them are tried together, in a statement that skips those that are still locked. A row that the database rejects (a
// constraint, a trigger, row security) may stay for days, until somebody mends the table, and one of them keeps a whole
// statement from being written: they are tried in small batches.
//
// Neither kind is dropped while the shard is ours. The rows take room, and in the end the reads stop (Snapshot.Full),
// which the log says at once: publishing on would mean to publish them again after the next restart.

// aside are rows that could not be written. They stay in flight, so that they are not published again.
type aside struct {
	rows   []*Row
	trying int       // rows that are being tried again
	due    time.Time // when they are tried again
}

const (
	// An application's transaction ends within a second most often, and one statement tries all locked rows. A table
	// that rejects rows is mended by hand.
	lockedPause   = time.Second
	rejectedPause = 10 * time.Second
	// rejectedBatch is how many rows are tried at once that the database did not mark. Finding the bad ones takes up to
	// two statements for each. While none is bad, the next batch follows at once.
	rejectedBatch = 32
)

// number counts the rows.
func (a *aside) number() int { return len(a.rows) + a.trying }

// retry returns rows to try again now, some at a time. They stay in flight, and count in number until their outcome is
// given back.
func (a *aside) retry(most int, now time.Time) (o Outcome, ok bool) {
	if len(a.rows) == 0 || now.Before(a.due) {
		return Outcome{}, false
	}
	n := min(len(a.rows), most)
	o = Outcome{Rows: a.rows[:n:n], Again: true, Careful: true}
	a.rows, a.trying = a.rows[n:], n
	return o, true
}

// retrying reports whether rows that could not be written are being tried again.
func (e *Engine) retrying() bool { return e.locked.trying+e.rejected.trying > 0 }

// setAside keeps the rows of an outcome that another session keeps locked, or that the database did not mark. A row may
// change from one kind to the other: a locked one may be rejected once it is free.
func (e *Engine) setAside(o *Outcome, locked, rejected []*Row, now time.Time) {
	l, u := &e.locked, &e.rejected
	if o.Again {
		if u.trying > 0 {
			u.due = now // the next ones follow, unless some of these are rejected again
		}
		l.trying, u.trying = 0, 0
	}
	if len(locked) > 0 {
		if len(l.rows) == 0 { // else they do not postpone the next try
			l.due = now.Add(lockedPause)
		}
		l.rows, e.unwritable = append(l.rows, locked...), outbox.ErrLocked
		e.warnOfLocks(now, "rows", l.number())
	}
	if len(rejected) > 0 {
		u.rows, u.due = append(u.rows, rejected...), now.Add(rejectedPause)
		e.unwritable = o.Unwritten[rejected[0].Identity()]
		if e.isNews("unmarked", now) {
			m := &rejected[0].Message
			e.Logger.Error("rows are published and cannot be marked, since the table does not take the change; "+
				"they are kept in memory and tried again, and a restart publishes them again",
				"rows", u.number(), "id", m.ID, "topic", m.Topic, "error", e.unwritable)
		}
	}
}

// letGo forgets the rows of a leaving shard that the database did not mark, and once it is late also those that another
// session keeps locked. They are pending in the table, and the next owner publishes them again. No replica reads a
// leaving shard, so a single row must not keep it for ever. A second publish is the smaller harm, and the next owner
// rehearses the marks of what it finds, so that it happens once. Rows that are being tried at the moment stay until
// they come back.
func (e *Engine) letGo(shard int, late bool) {
	n := 0
	for _, of := range []*aside{&e.rejected, &e.locked} {
		if of == &e.locked && !late {
			continue
		}
		of.rows = slices.DeleteFunc(of.rows, func(r *Row) bool {
			if r.Shard != shard {
				return false
			}
			n++
			e.land(r)
			if k := r.key; r.Refused != nil && k.state == writing { // other refusals of the key may be written now
				if k.writes--; k.writes == 0 {
					e.reopen(k)
				}
			}
			e.idle(r.key)
			return true
		})
	}
	if n > 0 {
		e.Logger.Warn(
			"shards are released although the outcome of some of their rows could not be written; "+
				"their next owner publishes these rows again",
			"rows", n)
	}
}

// stuck returns how many rows in flight can be neither written nor published.
func (e *Engine) stuck() int { return e.locked.number() + e.rejected.number() }

// WaitsFor counts the rows that are not written because another session keeps them locked.
func (e *Engine) WaitsFor() int { return len(e.locked.rows) }

// why returns why rows in flight cannot be written.
func (e *Engine) why() error {
	if e.stuck()+int(e.held[CauseMark]) == 0 {
		return nil
	}
	return e.unwritable
}
