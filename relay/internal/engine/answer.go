package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// The broker's answers come in here. Each key is looked at by itself, since a publisher accepts a prefix of what it was
// given of a key: the first row that was not accepted decides what becomes of the key, and what stands behind that row
// was not attempted. There are four ways on:
//
//   - refused: the row has spent an attempt, which is written before anything else of the key goes (invariant 5).
//   - held: the broker names what is in trouble, and the key waits for it with all others that meet the same. No
//     attempt is spent.
//   - down: the whole destination is in trouble. Rows stay queued, and a few keys try (outage).
//   - unknown: there was no answer. The row is published again with the same id, so that the broker or the consumer can
//     tell. A row that never gets an answer, sent alone, while others do, is refused in the end.
//
// The engine takes an answer's class and fate from package publisher, and knows nothing else of brokers.

// Answers takes the broker's answers for a batch, which took some time: one for each row, in the batch's order. A row
// is accepted if its answer is nil or has that class. Meanwhile shards may have been lost, keys blocked, and the engine
// stopped. An accepted row is marked all the same, since consumers have it.
func (e *Engine) Answers(batch []*Row, errs []error, now time.Time) {
	e.publishing--
	e.outage.probing = false
	a := answers{Engine: e, now: now, counts: map[publisher.Class]int{}}
	for from := 0; from < len(batch); {
		to := from + 1
		for to < len(batch) && batch[to].key == batch[from].key {
			to++
		}
		a.key(batch[from:to], errs[from:to], len(batch) == 1)
		from = to
	}
	// The rate is what the broker gets. What it has not taken does not count, or an outage would use the rate up.
	spared := a.counts[publisher.NotAttempted] + a.counts[publisher.Unavailable] + a.counts[publisher.Topology]
	e.spend(-spared)
	e.Measure.Published(len(batch), a.counts)
	switch {
	case a.alive:
		e.up()
	case a.down != nil:
		e.down(a.down, now)
	case a.counts[publisher.NotAttempted] == len(batch):
		e.outage.until = later(e.outage.until, now.Add(unattemptedPause)) // a publisher that is closing, perhaps
	}
	if e.stopping {
		e.Stop()
	}
}

// unattemptedPause is the pause after a call that has attempted nothing. Its keys are at the front of their queues
// again at once, so that the loop would turn without a pause while a publisher closes.
const unattemptedPause = 50 * time.Millisecond

// answers is the processing of one batch's answers. What they say of the destination as a whole is gathered here, and
// decided when all keys have been looked at: one row that was accepted outweighs any number that were not.
type answers struct {
	*Engine
	now    time.Time
	counts map[publisher.Class]int // rows by the class of their answer, for the metrics and the rate
	alive  bool                    // an answer shows that the broker works
	down   error                   // the last answer that says that nothing can be published to the destination
}

// key takes the answers for a key's rows: some of the first were accepted. The others go back to the front of its
// queue, and the answer for the first of them says what becomes of the key.
func (a *answers) key(rows []*Row, errs []error, alone bool) {
	k, n := rows[0].key, 0
	k.wire = 0 // from here on the key may be in another call (invariant 2)
	var left []*Row
	for i, r := range rows {
		class := publisher.ClassOf(errs[i])
		if a.counts[class]++; class == publisher.Accepted {
			a.accept(r, errs[i])
		} else if left = append(left, r); len(left) == 1 {
			n = i
		}
		if class == publisher.Ambiguous {
			a.sentUnknown.put(sentHash(r), struct{}{})
		}
	}
	if publisher.ClassOf(errs[0]) == publisher.Accepted && k.hold != nil {
		a.release(k.hold, a.now)
	}
	switch { // of a key that was read by itself
	case !k.tried || k.hold != nil:
	case publisher.ClassOf(errs[0]) == publisher.Accepted:
		a.vain, k.tried = 0, false
	case publisher.ClassOf(errs[0]) != publisher.NotAttempted:
		a.vain++
	}
	if len(left) > 0 {
		a.stopped(k, left, errs[n], alone)
	}
	if len(k.queue) > 0 {
		a.list(k)
	} else if k.state == draining {
		a.further(k, a.now)
	}
	a.idle(k)
}

// accept notes that the broker has a row. From now on nothing but its mark, or the end of the process, takes it out of
// memory, except for a shard that has to leave. The row's key does not wait for the mark: its next rows may go before.
func (a *answers) accept(r *Row, err error) {
	a.alive = true
	if d, ok := errors.AsType[*publisher.Duplicate](err); ok {
		a.duplicate(r, d)
	}
	k := r.key
	k.tries, k.unanswered, k.unmarkable = 0, 0, false
	a.accepted++
	a.sentAccepted.put(sentHash(r), struct{}{})
	r.accepted = a.now
	a.unwritten = append(a.unwritten, r)
	if !a.ordered() || k.keyless || r.Timed {
		return
	}
	if last, known := a.lastAccepted.get(k.hash()); known && last > r.Position.Ordinal {
		a.Measure.OrderViolation() // a younger row of its key was accepted before
	} else {
		a.lastAccepted.put(k.hash(), r.Position.Ordinal)
	}
}

// stopped handles the rows of a key from the first one on that was not accepted, for which err is the answer. The
// answers for the rows after it decide nothing: of each key a publisher accepts a prefix. alone says that the batch had
// one row.
func (a *answers) stopped(k *key, rows []*Row, err error, alone bool) {
	class := publisher.ClassOf(err)
	first := rows[0]
	refused := class == publisher.Refused || class == publisher.Permanent
	fate, named := publisher.FateOf(err, first.Message.Topic)
	down := named && fate.Kind == publisher.FateDestination
	// A row that was sent alone and breaks the connection says that the destination is in trouble. Believed each time,
	// it would keep all others from going, and none could show that the row is to blame.
	if class == publisher.Ambiguous {
		k.unanswered++
		down = down && !(alone && k.unanswered > aloneAfter)
	}
	if down {
		a.down = err
	}
	a.alive = a.alive || refused || !down && (class == publisher.Unavailable || class == publisher.Topology)
	// The key may have been closed while its rows were on the wire: its shard has left, or the list of failed rows has
	// it. Then what was not accepted is read again later, by this replica or another one.
	if !refused && (!a.goesOn(k) || a.stopping) {
		for _, r := range rows {
			a.drop(k, r)
		}
		a.unprobe(k)
		return
	}
	// The rows are first in the queue again, before what the key's reads have brought meanwhile. What follows closes
	// the key and forgets them, so that others can use their room, and they come back with the key's next read. Only in
	// an outage of the whole destination they stay: it would make every key be read again.
	k.queue = slices.Concat(rows, k.queue)
	a.queued += len(rows)
	switch h := k.hold; {
	case refused:
		if h != nil {
			a.release(h, a.now) // its probe was answered
		}
		k.unanswered = 0
		a.refused(k, 1, err)
	case first.Unmarkable != nil:
		a.withhold(k, first.Unmarkable, a.now)
	case down, class == publisher.NotAttempted: // they go first the next time
	case named && fate.Kind != publisher.FateDestination:
		if h != nil && h.fate != fate {
			a.release(h, a.now) // its probe came further than this hold
		}
		a.hold(k, fate, err, a.now)
	case alone && k.unanswered >= refuseAfter && a.accepted > k.accepted:
		k.unanswered = 0
		why := publisher.RefusedError("no answer alone", "published alone and again without an answer: %w", err)
		a.refused(k, 1, why)
	default:
		if h != nil {
			a.prolong(h, h.cause, err, a.now)
		}
		if k.tries++; class == publisher.Ambiguous && alone {
			k.accepted = a.accepted
		}
		a.rest(k, CauseUnavailable, a.now.Add(a.pause(k.tries)))
	}
}

// goesOn reports whether rows of a key may stay queued. Queued rows of a shard that was lost would be published beside
// those of its next owner, and rows of a key that was closed meanwhile would come before older ones. Of a state other
// than open and draining, the key's own read, or what it waits for, brings them again.
func (e *Engine) goesOn(k *key) bool {
	return e.shards.active.Has(k.shard) && (k.state == open || k.state == draining)
}

// refuseAfter is the number of publishes without an answer, the last ones alone, that count as a refusal, if other rows
// of the destination are accepted meanwhile. With a timeout of ten seconds that takes more than a minute at a silent
// broker, and a few seconds where the connection ends. Silence alone proves nothing against a row: behind a proxy that
// ended silent connections, the only row of a silent broker failed after some minutes when it did.
const refuseAfter = 6

// duplicate handles the answer that the broker already holds a message with the row's id. After a publish without an
// answer, or for a row that the shard's last owner may have sent, this is what message ids are for. Any other row
// shares its id with another message, and the broker has dropped it. Such a row is marked anyway, since it would be
// dropped each time, but the log reports it.
func (a *answers) duplicate(r *Row, d *publisher.Duplicate) {
	_, unknown := a.sentUnknown.get(sentHash(r))
	_, accepted := a.sentAccepted.get(sentHash(r))
	if unknown || accepted || !a.newHere(r) {
		return
	}
	a.Measure.UnexpectedDuplicate()
	if !a.dropping[d.Stream] {
		a.dropping[d.Stream] = true
		a.Logger.Warn("rows that were never sent are dropped by their broker as duplicates and count as relayed",
			"stream", d.Stream, "error", d)
	}
}

// newHere reports whether the row was inserted after this replica acquired its shard, judged by its insertion time. A
// time that is far ahead of this replica's clock was not taken from a clock.
func (a *answers) newHere(r *Row) bool {
	inserted, since := r.Message.Inserted, a.shards.since[r.Shard]
	const skew = time.Minute
	return !inserted.IsZero() && !inserted.Before(since) && inserted.Before(a.now.Add(skew))
}
