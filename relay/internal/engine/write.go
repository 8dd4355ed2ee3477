package engine

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// What became of rows is written here, or rather handed out to be written, and what has come of that is taken back. A
// row stays in flight until its write is known to be committed (invariant 1): before that it is pending in the table,
// and a read would bring it again. What cannot be written stays in flight for ever, if need be (see unwritten), since
// it was published; only a shard that has to leave lets go of it.

// A Refusal is a row that was not accepted and is tried again later, or has failed.
type Refusal struct {
	Row    *Row
	Err    error
	Failed bool
}

// An Outcome is what is to be written for some rows, and the result of writing it.
type Outcome struct {
	Accepted []*Row
	Refused  []Refusal
	Again    bool // the rows could not be written before
	Careful  bool // do not wait for rows that another session keeps locked

	Effects map[string]Effect // by the rows' identities; see [Effect]
	Why     error             // the database's last answer for an unwritable row
	Slow    int               // number of rows of a statement that took too long
	Err     error             // not nil if ctx ended before, or if nothing can be written to the table as it is now
}

// An Effect is what a write did to a row. An accepted row without an effect is marked. A refused row without an effect
// has changed since it was read.
type Effect uint8

const (
	Written    Effect = iota + 1 // the refusal is written
	Unwritable                   // a constraint, a trigger or row security prevents the write
	Unfree                       // another session keeps the row locked, or a row that a trigger or a foreign key uses
	Rewritten                    // somebody has changed the row since it was read, so that it is not marked
)

// Number counts the rows, including those with an effect.
func (o *Outcome) Number() int { return len(o.Accepted) + len(o.Refused) }

// Rows yields them.
func (o *Outcome) Rows(yield func(*Row) bool) {
	for _, r := range o.Accepted {
		if !yield(r) {
			return
		}
	}
	for _, x := range o.Refused {
		if !yield(x.Row) {
			return
		}
	}
}

// refused makes the refusals of a key's first rows be written, and closes it until then.
func (e *Engine) refused(k *key, n int, err error, failed bool) {
	rows := k.queue[:n]
	k.queue = k.queue[n:]
	e.queued -= n
	for _, r := range rows {
		e.refuse = append(e.refuse, Refusal{Row: r, Err: err, Failed: failed})
	}
	read := k.rows
	if e.shut(k, writing); errors.Is(err, errExpired) { // the next rows may be as old, and go with one statement
		k.rows = min(8*max(read, n), e.Limits.Batch)
	}
	k.writes += n
}

// Writes calls to with what is to be written now. What could not be written before is tried separately.
func (e *Engine) Writes(now time.Time, to func(Outcome)) {
	if !e.retrying() {
		o, ok := e.locked.retry(now)
		o.Careful = true
		if !ok {
			o, ok = e.rejected.retry(now)
		}
		if ok {
			to(o)
		}
	}
	if len(e.settle)+len(e.refuse) > 0 {
		to(Outcome{Accepted: e.settle, Refused: e.refuse, Careful: now.Before(e.careful)})
		e.settle, e.refuse = nil, nil
	}
}

// Written takes what was written of an outcome.
func (e *Engine) Written(o Outcome, now time.Time) {
	// First what was not written is set aside, then the rest lands. Rows that are set aside stay in flight: they were
	// published, and must not be again.
	again, of := o.Again, &e.locked
	if e.rejected.trying > 0 {
		of = &e.rejected
	}
	if again {
		of.trying = 0
		for r := range o.Rows {
			of.bytes -= r.Size
		}
	}
	locked := o.apart(Unfree)
	if e.locked.keep(locked, errLocked, now.Add(lockedPause)); locked.Number() > 0 {
		e.warnOfLocks(now, "rows", e.locked.rows())
		e.careful = now.Add(carefulFor)
	}
	rejected := Outcome{}
	o.Accepted, rejected.Accepted = o.split(Unwritable)
	if e.rejected.keep(rejected, o.Why, now.Add(rejectedPause)); len(rejected.Accepted) > 0 {
		e.tell(slog.LevelError, now, "rows are published and cannot be marked, since the table does not take the change; "+
			"they are kept in memory and tried again, and a restart publishes them again",
			"rows", e.rejected.rows(), "id", rejected.Accepted[0].Message.ID,
			"topic", rejected.Accepted[0].Message.Topic, "error", o.Why)
	}
	switch u := &e.rejected; {
	case rejected.Number() > 0:
		u.most, u.due = rejectedBatch, now.Add(rejectedPause)
	case again && of == u:
		u.most, u.due = 2*u.most, now // the rows that were tried are marked, and the next ones follow
	}
	changed := Outcome{}
	o.Accepted, changed.Accepted = o.split(Rewritten)
	e.marked += len(o.Accepted)
	e.proven = e.proven || len(o.Accepted) > 0 && e.pastLeft()
	for _, r := range o.Accepted {
		e.done(r)
		r.key.refused = 0
		r.finish(nil, now)
		e.idle(r.key)
	}
	for _, r := range changed.Accepted {
		e.changed(r, now)
	}
	e.Measure.Relayed(latencies(o.Accepted), now)
	e.refusedWritten(&o, now)
}

// split divides accepted rows into those without an effect and those with it.
func (o *Outcome) split(effect Effect) (others, with []*Row) {
	if len(o.Effects) == 0 {
		return o.Accepted, nil
	}
	for _, r := range o.Accepted {
		if o.Effects[r.Identity()] == effect {
			with = append(with, r)
		} else {
			others = append(others, r)
		}
	}
	return others, with
}

// apart takes the rows with an effect out of the outcome.
func (o *Outcome) apart(effect Effect) (with Outcome) {
	o.Accepted, with.Accepted = o.split(effect)
	if len(o.Effects) == 0 {
		return with
	}
	all := o.Refused
	o.Refused = nil // the settlement has the slice, too
	for _, x := range all {
		if o.Effects[x.Row.Identity()] == effect {
			with.Refused = append(with.Refused, x)
		} else {
			o.Refused = append(o.Refused, x)
		}
	}
	return with
}

// changed makes a row be published as it is now: somebody has changed it after it was read.
func (e *Engine) changed(r *Row, now time.Time) {
	k := r.key
	e.land(r)
	r.finish(nil, now)
	if e.goesOn(k) {
		e.rest(k, causeOrder, now)
	}
	e.sweep.asked = true // it may have another key now
	e.idle(k)
}

// latencies returns the times from when rows were due to when they were accepted.
func latencies(rows []*Row) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for _, r := range rows {
			latency := measure.Unknown
			if !r.Due.IsZero() {
				latency = r.moved.Sub(r.Due)
			}
			if !yield(latency) {
				return
			}
		}
	}
}

// refusedWritten goes on with the keys of refusals that were written. Those whose rows had changed since they were
// read are read again.
func (e *Engine) refusedWritten(o *Outcome, now time.Time) {
	bad := 0 // number of refusals that cannot be written
	for _, x := range o.Refused {
		e.done(x.Row)
		effect := o.Effects[x.Row.Identity()]
		if effect == Unwritable {
			bad++
		}
		if x.Failed && effect == Written {
			e.Measure.Failed(failure(x.Err), now)
			e.logRow("row failed", x, now)
			x.Row.finish(x.Err, now)
		}
		if k := x.Row.key; k.state == writing {
			if k.writes--; k.writes == 0 {
				e.goOn(k, x, effect, now)
			}
		}
		e.idle(x.Row.key)
	}
	if bad > 0 {
		e.tell(slog.LevelError, now, "refused rows cannot be written, since the table does not take the change; "+
			"their keys wait, and they are tried again", "rows", bad, "error", o.Why)
	}
}

// goOn goes on with a key after the refusal of its first row.
func (e *Engine) goOn(k *key, x Refusal, effect Effect, now time.Time) {
	r, to, written := x.Row, &e.To, effect == Written
	spent := !x.Failed && (r.Try+1 > to.MaxAttempts || publisher.ClassOf(x.Err) == publisher.Permanent)
	if stamp := stampOf(r.Identity(), r.topic); k.blamed != stamp {
		k.refused, k.blamed = 0, stamp
	}
	k.refused++
	if spent && written && (r.Try == to.MaxAttempts || k.refused == 1) { // log it once
		e.logRow("row would fail, and the table has no failed_at to say so: its key waits", x, now)
	} else if !x.Failed && k.refused == 1 && !(e.Table.KeepsErrors() && e.Table.KeepsFailures()) {
		e.logRow("row refused, and the table has no last_error or failed_at to say so: it is tried again", x, now)
	} else if !x.Failed {
		e.Logger.Debug("row refused, and tried again", "id", r.Message.ID, "attempt", r.Try, "error", x.Err)
	}
	switch {
	case !e.shards.active.Has(k.shard): // it was closed only until the refusal was written
		e.reopen(k)
	case x.Failed && written && e.blocks && !k.keyless: // until an operator retries or discards the row
		e.reopen(k)
		e.block(k.hash(), k.shard)
	// Nothing is left of it: no other row has its id.
	case x.Failed && written && k.keyless && k.reads == 0 && !k.missed:
		e.reopen(k)
	// The row has failed, or is not as it was read: another session has relayed, failed or changed it. The key goes on
	// with what is first now.
	case x.Failed && written, !written && effect != Unwritable:
		k.refused = 0
		e.restIn(k, causeOrder, now)
	case spent, effect == Unwritable: // the row would have failed, but the table cannot record it
		e.rest(k, CauseFailed, now.Add(to.BackoffMax))
	default:
		e.rest(k, CauseRetry, now.Add(retry.Backoff(to.BackoffMin, to.BackoffMax, r.Message.ID, r.Try+1)))
	}
}

// logRow logs what became of a row. It may be long before anyone looks at the table.
func (e *Engine) logRow(message string, x Refusal, now time.Time) {
	const most, mostError = 200, 2 << 10 // bytes of a name and of an error in a line
	m := &x.Row.Message
	e.rows.log(slog.LevelWarn, now, message, "topic", cut(m.Topic, most), "id", cut(m.ID, most),
		"attempt", x.Row.Try, "error", cut(x.Err.Error(), mostError))
}

// tell writes a message to the log, once a minute at most.
func (e *Engine) tell(level slog.Level, now time.Time, message string, args ...any) {
	if last, told := e.told[message]; !told || now.Sub(last) > time.Minute {
		e.told[message] = now
		e.Logger.Log(context.Background(), level, message, args...)
	}
}

// failure returns the reason for which a row failed with an error.
func failure(err error) string {
	switch {
	case errors.Is(err, errExpired):
		return measure.FailedExpired
	case publisher.ClassOf(err) == publisher.Permanent:
		return measure.FailedPermanent
	default:
		return measure.FailedAttempts
	}
}
