package engine

import (
	"container/heap"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// A key has rows in flight, or is closed and read by itself. A row without a key is a key of its own, by its id. Such a
// key keeps no order, so it may be forgotten where a key with an order may not: a sweep finds its row again.
type key struct {
	name    uint64 // see nameOf
	due     bool   // its rows are read by their available_at
	keyless bool   // a row without a key
	shard   int    // of all of its rows
	state   state
	queue   []*Row // to be published, in table order
	wire    int    // rows handed to a publisher: one call at a time
	flying  int    // rows in flight: in queue, on the wire, or being written
	writes  int    // refusals that are being written
	ready   bool   // listed for publishing

	until time.Time // of resting
	place int       // in the heap of resting keys, -1 outside
	cause Cause     // of resting
	hold  *hold     // that the key tries, as its probe; nil for none

	// What is known of its first row. All of it is forgotten with the key: once the key is open or waits, and has
	// nothing in flight. Keys of which only memory knows the count do not have to give their places up; see counts.
	tries      int    // tries in vain in a row that spent no attempt; they make the next pause longer
	refused    int64  // refusals in a row
	unmarkable bool   // its first row is rehearsed: the database would not mark it, or a sweep has found it pending
	blamed     uint32 // stamp of the row that was refused
	unanswered int    // publishes of its first row without an answer, in a row
	accepted   uint64 // number of rows accepted at the destination before the last of these

	tried bool // what is queued was read by itself, and no row of it was accepted yet
	rows  int  // number of rows that the next read brings; see further

	// Reads go on where the last one has ended: last is the ordinal of its last row, and seen what the first of them
	// saw, which began at the key's beginning. So does the next one if seen is nil.
	seen    *outbox.Visible
	last    int64
	dropped *int64 // lowest ordinal of the rows of it that were dropped since that first read began; nil for none
}

// A state says where the rows of a key come from. All but open and waiting are closed keys that are read by themselves.
// The picture in the package's comment has the ways from one to another.
type state uint8

const (
	open     state = iota // the tail
	resting               // nowhere, until a time; then its first rows are read
	reading               // its first rows are being read
	draining              // some of its first rows are queued; then the next are read
	writing               // nowhere, until the refusal of its first row is written
	waiting               // nowhere, until what it waits for is over; its hash is among the waiting keys
)

// fewRows is how many rows of a key are read first: one to try, and one that shows whether there are more. With one, a
// key of one row would take two reads. For 100,000 keys, PostgreSQL took 0.8 s with two rows of each and 2.3 s with
// sixteen.
const fewRows = 2

// hash returns the hash by which the table finds the key's rows.
func (k *key) hash() uint64 { return nameOf(k.name, k.due) }

// restingKeys are the keys that are read at a time, as a heap by that time. Each knows its place, so that one of
// 100,000 is removed without a search.
type restingKeys []*key

func (r restingKeys) Len() int           { return len(r) }
func (r restingKeys) Less(i, j int) bool { return r[i].until.Before(r[j].until) }

func (r restingKeys) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].place, r[j].place = i, j
}

// Push implements heap.Interface.
func (r *restingKeys) Push(x any) {
	k := x.(*key)
	k.place = len(*r)
	*r = append(*r, k)
}

// Pop implements heap.Interface.
func (r *restingKeys) Pop() any {
	old := *r
	k := old[len(old)-1]
	old[len(old)-1] = nil
	*r, k.place = old[:len(old)-1], -1
	return k
}

// enter moves a key to another state, and keeps the counts of closed and resting keys. It is the only place that sets a
// state. A key that comes to rest is listed by until.
func (e *Engine) enter(k *key, s state) {
	if k.place >= 0 {
		heap.Remove(&e.resting, k.place)
		e.held[k.cause]--
	}
	if was, is := isClosed(k.state), isClosed(s); was != is {
		if e.closed--; is {
			e.closed += 2
		}
	}
	k.state = s
}

func isClosed(s state) bool { return s != open && s != waiting }

// shut closes a key. Its queued rows are forgotten, and it is read from its very beginning: a row that was committed
// late meanwhile goes first. What is on the wire is answered, and what is being written is written. It keeps invariant
// 4: nothing may stay queued that the tail has brought, or the key's own read would bring older rows after it.
func (e *Engine) shut(k *key, s state) {
	e.forgo(k.name)
	// What is forgotten here is pending in the table and counts as dropped: a read that began before may not open the
	// key.
	k.dropped = nil
	if len(k.queue) > 0 {
		k.dropped = new(k.queue[0].Position.Ordinal)
	}
	for _, r := range k.queue {
		e.queued--
		e.land(r)
	}
	e.unprobe(k)
	k.queue, k.rows, k.seen, k.tried = nil, fewRows, nil, false
	e.enter(k, s)
}

// rest closes a key until a time, when it is read from its beginning.
func (e *Engine) rest(k *key, c Cause, due time.Time) {
	e.shut(k, resting)
	e.restIn(k, c, due)
}

// restIn makes a key that is closed already rest, if there is room to remember it; else it waits for room. Keys that
// were tried in vain may take three quarters of the room, and give their places up to others that wait for room.
// Without the quarter, 1,500 rows without a key on a dead partition took all places of a simulation, and not one of 200
// keys of a topic that was back went on in two minutes. Without the turns, rows without a key starved each other, since
// each sweep began at the same ones.
func (e *Engine) restIn(k *key, c Cause, due time.Time) {
	vain := k.tries > 0 || k.refused > 0
	if e.closed > e.room(vain) || vain && e.waits.room.live > 0 && !e.counts(k) {
		e.wait(k, e.waits.room)
		return
	}
	e.until(k, c, due)
}

// counts reports whether only memory knows how often a key was tried. It would be forgotten with the key's place, and a
// row whose tries were never counted to the end would never fail: with more such rows than places none of them ever
// did, where no column counts attempts.
func (e *Engine) counts(k *key) bool {
	return k.unanswered > 0 || k.refused > 0 && e.Table.KeepsFailures() && !e.Table.KeepsAttempts()
}

// room returns how many keys may be closed at a time, beside those that try holds.
func (e *Engine) room(vain bool) int {
	if vain {
		return max(1, e.Limits.Keys*3/4) + len(e.holds.by)
	}
	return e.Limits.Keys + len(e.holds.by)
}

// reopen makes a key's rows come from the tail again. The caller knows that everything which a snapshot sees of the key
// is in flight or settled, or that the key's order is none of this replica's concern any more: its shard is lost, it is
// a row without a key, or the tail begins again.
func (e *Engine) reopen(k *key) {
	e.enter(k, open)
	k.seen, k.dropped = nil, nil
	e.idle(k)
}

// idle forgets a key that has no rows in flight and is not read by itself.
func (e *Engine) idle(k *key) {
	if !isClosed(k.state) && k.flying == 0 && e.keys[k.name] == k {
		delete(e.keys, k.name)
	}
}

// pause returns how long something rests that was tried in vain some times, without an attempt being spent. The more
// keys rest, the longer each rests, so that the number of tries in a second stays about the same.
func (e *Engine) pause(tries int) time.Duration { return e.pauseAmong(len(e.resting), max(1, tries)) }

// pauseAmong returns how long one of several causes rests that was tried in vain some times. A random half of the pause
// spreads the replicas: after a restart the broker is not met by all of them at once.
func (e *Engine) pauseAmong(causes, tries int) time.Duration {
	most := retry.LongestPause(causes, tries)
	return most/2 + e.Jitter(most/2)
}
