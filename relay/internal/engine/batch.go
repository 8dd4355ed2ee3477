package engine

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// What is published goes out here. A batch is one call of the publisher, with the first rows of many keys. A key has
// one call at a time (invariant 2), so its rows cannot overtake each other between two lanes; the rows of a key in one
// batch are in order, and the publisher accepts a prefix of them.
//
// What can change between a read and the publish is looked at here, row by row: a hold that has begun meanwhile, a row
// that has become too old, a backoff that is not over. The first row that may not go stops its key, not the batch.

// An outage is a time in which nothing can be published to the destination. Rows stay queued, and the first rows of a
// few keys try now and then: a single row may go to the one part of the broker that does not answer. It spends no
// attempt, closes no key and writes nothing: what it stops is in the queues when it ends, as it was.
type outage struct {
	err      error     // why
	failures int       // in a row; 0 if there is no outage
	until    time.Time // nothing is published before this time; also without an outage, see unattemptedPause
	probing  bool      // the call that tries is under way, and no other one begins
}

func (o *outage) cause() Cause { return classCause(publisher.ClassOf(o.err)) }

// probeKeys is how many keys try the destination in an outage, each with one row. One would not be enough: its row may
// go to the one broker of several that is still away. All that was queued would be too many: in two minutes of an
// outage the publisher was given 186,000 messages for 2,000 rows that merely waited.
const probeKeys = 10

// aloneAfter is how many publishes in a row of a key's first row may end without an answer before it goes alone, in
// case it is the one that breaks the connection.
const aloneAfter = 2

// Batch returns the rows that a lane publishes now in one call: of each key the first ones, in order. A lane that tries
// is for keys that were not accepted the last time. Keys go first come, first served, and one with more rows than a
// batch takes is listed again with its answers. The rows are the caller's until it gives them back with
// [Engine.Answers]. Nil means that nothing may go now.
func (e *Engine) Batch(tries bool, now time.Time) (batch []*Row) {
	list := &e.ready[0]
	if tries {
		list = &e.ready[1]
	}
	o := &e.outage
	if e.stopping || len(*list) == 0 {
		return nil
	}
	// Half of the bytes, so that one lane does not take all that is in flight. Each key is looked at once.
	most, keys, bytes := e.sendable(e.Limits.Batch, now), len(*list), e.Limits.Bytes/2
	switch {
	case o.probing || now.Before(o.until):
		most = 0
	case o.failures > 0:
		keys = min(keys, probeKeys)
	}
	for ; keys > 0; keys-- {
		k := (*list)[0]
		// Rows that are too old fail all the same: they wait neither for the rate nor for the end of an outage.
		full := len(batch) >= most || bytes <= 0 && len(batch) > 0
		if full && len(k.queue) > 0 && !k.queue[0].expired(now) {
			break
		}
		*list = (*list)[1:]
		k.ready = false
		// A row that may break the connection goes alone: together with others, their silence would be its fault, and
		// nobody could tell which one it was.
		alone := k.unanswered >= aloneAfter
		if alone && len(batch) > 0 {
			e.list(k)
			continue
		}
		n := e.prefix(k, most-len(batch), bytes, now)
		if o.failures > 0 || alone {
			n = min(n, 1)
		}
		for _, r := range k.queue[:n] {
			bytes -= r.Size
			r.Unmarkable = nil // of an answer to a batch before, in which the row was not the first of its key
			batch = append(batch, r)
		}
		k.queue, k.wire = k.queue[n:], n
		e.queued -= n
		e.idle(k)
		if alone && n > 0 {
			break
		}
	}
	if len(batch) > 0 {
		e.publishing++
		o.probing = o.failures > 0
		e.spend(len(batch))
	}
	return batch
}

// prefix returns how many of a key's rows may be published now. If its first row may not, the key is closed, or the
// row fails. A row behind the first one that may not go only ends the prefix: when it is the first one itself, it is
// looked at again, and most of what spoke against it may be over by then.
func (e *Engine) prefix(k *key, most int, bytes int64, now time.Time) int {
	for i, r := range k.queue {
		h := e.holds.topics[addressOf(r)]
		switch {
		// A key that tries a hold sends its first row alone, so that a try costs one publish.
		case i > 0 && (i == most || bytes <= 0 || k.hold != nil || h != nil),
			i > 0 && (r.after.After(now) || r.Invalid != nil || r.expired(now)):
			return i
		case r.Invalid != nil:
			e.refused(k, 1, permanent(r.Invalid))
			return 0
		case r.expired(now):
			e.expire(k, now)
			return 0
		case h != nil && h != k.hold:
			e.wait(k, h)
			return 0
		case r.after.After(now):
			e.rest(k, CauseRetry, r.after)
			return 0
		}
		bytes -= r.Size
	}
	return len(k.queue)
}

// permanent returns the error of a row that cannot be published, as an answer of the class Permanent.
func permanent(err error) error {
	if publisher.ClassOf(err) != publisher.Permanent {
		return publisher.PermanentError("invalid row", "%w", err)
	}
	return err
}

// errExpired is wrapped by the error of a row that failed because it was too old to be published.
var errExpired = outbox.ErrExpired

// expired reports whether a row is too old to be published. An invalid row fails for being invalid instead.
func (r *Row) expired(now time.Time) bool {
	return !r.expires.IsZero() && now.After(r.expires) && r.Invalid == nil
}

// expire makes the first rows of a key fail that are too old, instead of being published. This needs no broker, so it
// also happens during an outage. Where failed rows block their keys, the first one has to be retried or discarded
// before the next ones.
func (e *Engine) expire(k *key, now time.Time) {
	n := 1
	for n < len(k.queue) && !e.BlockFailed && k.queue[n].expired(now) {
		n++
	}
	err := publisher.PermanentError("expired", "%w: not relayed within %v since it was due", errExpired, e.MaxAge)
	e.refused(k, n, err)
}

// down notes that nothing can be published to the destination. Each failed probe makes the next pause longer, up to the
// longest one.
func (e *Engine) down(err error, now time.Time) {
	o := &e.outage
	o.err = err
	o.failures++
	o.until = now.Add(e.pauseAmong(0, o.failures))
	if o.failures == 1 {
		e.Logger.Warn("destination is held", "reason", o.cause(), "error", err)
	}
}

// up notes that the broker works: it has accepted a row or refused one, or named a part of it that is in trouble.
func (e *Engine) up() {
	if e.outage.failures > 0 {
		e.Logger.Info("destination is back")
	}
	e.outage = outage{}
}

// Down returns why nothing can be published to the destination, nil if rows can be. It is nil when no rows are left
// that could try: they have expired, or their shards were given away. Then the relay's probe says whether the broker
// can be reached.
func (e *Engine) Down() error {
	if len(e.flying)+e.closed+len(e.waits.by)-e.waits.blocked.live == 0 {
		return nil
	}
	return e.outage.err
}
