package engine

import (
	"errors"
	"math"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// What became of rows is written here, or rather handed out to be written, and what has come of that is taken back. A
// row stays in flight until its write is known to be committed (invariant 1): before that it is pending in the table,
// and a read would bring it again. What cannot be written stays in flight for ever, if need be (see unwritten), since
// it was published; only a shard that has to leave lets go of it.

// An Outcome is what is to be written for some rows, and the result of writing it. The engine fills in the first three
// fields, and whoever writes it the others. The rows may come back in several outcomes, each of them once.
//
// Unwritten says by the rows' identities why they were not written: [outbox.ErrLocked], [outbox.ErrRewritten], or what
// prevents it, a constraint, a trigger or row security. Other rows may be among them.
type Outcome struct {
	Rows    []*Row // accepted, to be marked, or refused: those with Refused
	Again   bool   // the rows could not be written before; they come back in one outcome
	Careful bool   // do not wait for rows that another session keeps locked

	Unwritten map[string]error
	Err       error // not nil if ctx ended before, or if nothing can be written to the table as it is now
}

// refused makes the refusals of a key's first rows be written, and closes it until then. Before that (invariant 5) the
// table has the rows as they were, and a read of the key would bring them as if they had not been tried. There is one
// row, except where several are too old. A row has failed if no other try can help, or if this was the last one. In a
// table without failed_at nothing fails: the row is tried again after the longest backoff, and its key waits.
func (e *Engine) refused(k *key, n int, err error) {
	for _, r := range k.queue[:n] {
		final := publisher.ClassOf(err) == publisher.Permanent || r.Try+1 > e.MaxAttempts
		r.Refused, r.Failed = err, final && e.Table.KeepsFailures()
	}
	e.unwritten = append(e.unwritten, k.queue[:n]...)
	k.queue = k.queue[n:]
	e.queued -= n
	read, own := k.rows, isClosed(k.state)
	if e.shut(k, writing); errors.Is(err, errExpired) { // the next rows may be as old, and go with one statement
		k.rows = min(8*max(read, n), e.Limits.Batch)
	}
	if own && k.dropped == nil { // a read of its own may have left some of its rows in the table
		k.dropped = new(int64(math.MaxInt64))
	}
	k.writes += n
}

// Writes calls to with what is to be written now, at most twice. What could not be written before is tried separately,
// so that a row which keeps its statement from being written does not keep new ones waiting. All that has gathered goes
// in one outcome; the settlement divides it into statements. Each outcome is given back with [Engine.Written].
func (e *Engine) Writes(now time.Time, to func(Outcome)) {
	if !e.retrying() {
		o, ok := e.locked.retry(len(e.locked.rows), now)
		if !ok {
			o, ok = e.rejected.retry(rejectedBatch, now)
		}
		if ok {
			to(o)
		}
	}
	if len(e.unwritten) > 0 {
		// Each mark waits for half a second otherwise. When it waited for as long as a statement may, one locked row
		// stalled the marks of its batch for 30 s, again and again, until nothing was in flight any more.
		to(Outcome{Rows: e.unwritten, Careful: e.locked.number() > 0})
		e.unwritten = nil
	}
}

// Written takes what was written of an outcome. What could not be written is set aside and stays in flight: it was
// published, and must not be again. The rest lands. A refusal that the table does not take need not be remembered: the
// row was not published, so its key rests for the longest backoff and the row is tried as it stands in the table.
//
// Each row of the outcome is looked at for itself: some of a statement's rows may be marked, some locked and some
// changed. Rows land before their keys go on, so that what the keys read next finds them known or gone.
func (e *Engine) Written(o Outcome, now time.Time) {
	var marked, changed, locked, rejected, refused []*Row
	for _, r := range o.Rows {
		switch why := o.Unwritten[r.Identity()]; {
		case errors.Is(why, outbox.ErrLocked):
			locked = append(locked, r)
		case r.Refused != nil: // what the table does not take of these waits in the table
			refused = append(refused, r)
		case errors.Is(why, outbox.ErrRewritten):
			changed = append(changed, r)
		case why != nil:
			rejected = append(rejected, r)
		default:
			marked = append(marked, r)
		}
	}
	e.setAside(&o, locked, rejected, now)
	// Rows of the shards' last owner have passed once so many are marked; see Rehearses.
	if e.unproven = max(0, e.unproven-len(marked)); len(marked) > 0 && e.pastLeft() {
		e.unproven = 0
	}
	latencies := make([]time.Duration, 0, len(marked)) // from when rows were due to when they were accepted
	for _, r := range marked {
		latency := measure.Unknown
		if !r.Due.IsZero() {
			latency = r.accepted.Sub(r.Due)
		}
		latencies = append(latencies, latency)
		e.done(r)
		r.key.refused = 0
		r.finish(nil, now)
		e.idle(r.key)
	}
	for _, r := range changed {
		e.changed(r, now)
	}
	e.Measure.Relayed(latencies, now)
	e.refusedWritten(&o, refused, now)
}

// changed makes a row be published as it is now: somebody has changed it after it was read. Consumers see both
// versions, with the same id. The mark would otherwise stand for a content, a topic or a key that nobody has received:
// a row that was corrected during an outage used to be marked although no broker had the correction.
func (e *Engine) changed(r *Row, now time.Time) {
	k := r.key
	e.land(r)
	r.finish(nil, now)
	if e.goesOn(k) {
		e.rest(k, causeOrder, now)
	} else {
		e.drops(k.name, r.Position.Ordinal) // a read that goes on after it would miss it
	}
	e.sweep.asked = true // it may have another key now
	e.idle(k)
}

// refusedWritten goes on with the keys of refusals that were written. Those whose rows had changed since they were
// read are read again.
func (e *Engine) refusedWritten(o *Outcome, rows []*Row, now time.Time) {
	bad, last := 0, error(nil) // number of refusals that cannot be written, and why the last one cannot
	for _, r := range rows {
		e.done(r)
		why := o.Unwritten[r.Identity()]
		if why != nil && !errors.Is(why, outbox.ErrRewritten) {
			bad, last = bad+1, why
		}
		if r.Failed && why == nil {
			e.Measure.Failed(failure(r.Refused), now)
			if e.isNews(rowLines, now) {
				e.Logger.Warn("row failed", r.logged()...)
			}
			r.finish(r.Refused, now)
		}
		if k := r.key; k.state == writing {
			if k.writes--; k.writes == 0 {
				e.goOn(k, r, why, now)
			}
		}
		e.idle(r.key)
	}
	if bad > 0 && e.isNews("refusals", now) {
		e.Logger.Error("refused rows cannot be written, since the table does not take the change; "+
			"their keys wait, and they are tried again", "rows", bad, "error", last)
	}
}

// goOn goes on with a key after the refusal of its first row. First it decides what the log says. A table with
// last_error and failed_at has a row's story itself, so only failures are logged; elsewhere a refusal leaves no trace.
// Then it decides where the key's rows come from. why says why the refusal is not written, if it is not.
func (e *Engine) goOn(k *key, r *Row, why error, now time.Time) {
	written := why == nil
	spent := !r.Failed && (r.Try+1 > e.MaxAttempts || publisher.ClassOf(r.Refused) == publisher.Permanent)
	// The count is the row's. Counted for the key, the refusals of one row made the next one fail early.
	if stamp := stampOf(r.Identity(), r.topic); k.blamed != stamp {
		k.refused, k.blamed = 0, stamp
	}
	k.refused++
	if told := e.Table.KeepsErrors() && e.Table.KeepsFailures(); !r.Failed && !told && k.refused == 1 &&
		e.isNews(rowLines, now) {
		e.Logger.Warn("row refused, and the table has no last_error or failed_at to say so: it is tried again",
			r.logged()...)
	}
	switch {
	case !e.shards.active.Has(k.shard): // it was closed only until the refusal was written
		e.reopen(k)
	// Nothing is left of it: no other row has its id. If other rows were read or dropped under its name, ids are not
	// unique in this table, and the key is read again below.
	case r.Failed && written && k.keyless && k.dropped == nil:
		e.reopen(k)
	// The row has failed, or is not as it was read: another session has relayed, failed or changed it. Where failed
	// rows block their keys, the list knows whether there is one.
	case e.BlockFailed && !k.keyless && (r.Failed && written || errors.Is(why, outbox.ErrRewritten)):
		k.refused = 0
		e.failed.asked = e.failed.asked || !written
		e.wait(k, e.waits.blocked)
	// Elsewhere the key goes on with what is first now.
	case r.Failed && written, errors.Is(why, outbox.ErrRewritten):
		k.refused = 0
		e.restIn(k, causeOrder, now)
	case spent, !written: // the row would have failed, but the table cannot record it
		e.rest(k, CauseFailed, now.Add(e.BackoffMax))
	default:
		e.rest(k, CauseRetry, now.Add(retry.Backoff(e.BackoffMin, e.BackoffMax, r.Message.ID, r.Try+1)))
	}
}

// logged returns what the log says of a refused row. It may be long before anyone looks at the table. Texts are cut: a
// trigger that quotes the row it refuses made lines of 220 kB.
func (r *Row) logged() []any {
	const most, mostError = 200, 2 << 10 // bytes of a name and of an error in a line
	return []any{
		"topic", cut(r.Message.Topic, most), "id", cut(r.Message.ID, most), "attempt", r.Try,
		"error", cut(r.Refused.Error(), mostError),
	}
}

// failure returns the reason for which a row failed with an error: the label of rows_failed.
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
