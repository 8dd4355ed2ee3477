package engine

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// Engine is the state of one destination. One goroutine uses it, so it has no locks; what it knows of other goroutines
// it learns by the calls of [Engine.Taken], [Engine.Answers] and [Engine.Written].
//
// All of this is in memory only, and nearly all of it may be forgotten at any time: a row of which nothing is known
// here is pending in the table, and is read again. The exception is an accepted row whose mark is not written yet. If
// that is forgotten, the row is published again.
type Engine struct {
	Setup
	// Where rows come from. A key that is not in keys is open, or waits with nothing in flight, so that a million
	// healthy keys take no memory.
	tails         [2]tail         // by Kind: rows in table order, and rows by their available_at
	keys          map[uint64]*key // by name; see nameOf
	resting       restingKeys     // the first is the earliest
	closed        int             // keys that are read by themselves; see Limits.Keys
	waits         waits           // keys of which only the hash is remembered
	holds         holds           // what is in trouble at the broker
	sweep, failed pass            // over all pending rows; over the failed ones, where these block their keys
	held          map[Cause]int64 // keys that rest or wait
	vain          int             // keys that were tried in vain since one went on; see mostVain

	// Rows in flight (invariant 1). Each is in a queue, on the wire, in unwritten, set aside, or with the settlement.
	flying map[string]*Row   // by identity
	bytes  int64             // of these, with rowOverhead for each
	queued int               // rows that wait in the queues of their keys
	gone   map[string]uint64 // rows that were settled during reads: the number of the last read then
	shards shards
	reads  reads

	// What is published.
	ready      [2][]*key // have rows to publish: keys that are likely to go; keys that were not accepted the last time
	publishing int       // calls under way
	outage     outage
	accepted   uint64    // number of accepted rows; see isCulprit
	tokens     float64   // rows that may be sent now, if there is a rate
	filled     time.Time // when tokens were last counted; zero before the first time

	// What is written.
	unwritten        []*Row // accepted or refused, to be written
	locked, rejected aside  // could not be written, and are tried again
	unwritable       error  // why the last row that was not written, or not published, cannot be marked
	unproven         int    // rows to be marked before the database is known to mark what is read; see Rehearses
	stopping         bool   // nothing new begins; never becomes false again

	lines    map[string]int  // the log's in this minute, by kind; see isNews
	minute   time.Time       // when this minute began
	dropping map[string]bool // streams that have dropped rows as duplicates: the log says it once
	bell     bell

	// By sentHash: rows whose outcome is unknown may leave memory before they are published again, and an operator may
	// want rows to be sent again that were accepted.
	sentUnknown, sentAccepted recent[uint32, struct{}]
	lastAccepted              recent[uint64, int64] // ordinals of the last accepted rows, by their keys' hashes
}

// New makes an engine that owns nothing and reads nothing until [Engine.Own] has given it shards. Failed rows block
// their keys only where the table can record a failure.
func New(s Setup) *Engine {
	l := &s.Limits
	l.Batch = min(l.Batch, pageOf(l.Rows))
	l.Keys, l.Waiting = cmp.Or(l.Keys, mostKeys), cmp.Or(l.Waiting, mostWaiting)
	if s.Jitter == nil {
		s.Jitter = rand.N[time.Duration]
	}
	s.BlockFailed = s.BlockFailed && s.Table.KeepsFailures()
	return &Engine{
		Setup: s,
		keys:  map[uint64]*key{},
		waits: waits{
			by: map[uint64]waiter{}, room: &hold{cause: causeOrder}, blocked: &hold{cause: CauseBehindFailed},
		},
		held: map[Cause]int64{}, flying: map[string]*Row{}, gone: map[string]uint64{},
		shards: shards{flying: make([]int, s.Shards), since: make([]time.Time, s.Shards)},
		holds: holds{
			by: map[publisher.Fate]*hold{}, topics: map[publisher.Address]*hold{},
		},
		tokens: 1, // the first row may be sent at once, however small the rate is
		lines:  map[string]int{}, dropping: map[string]bool{},
	}
}

// ordered reports whether order values give the order of rows: they are numbers or times, and no new row goes before
// older ones by its priority. Otherwise the order of two rows is known only if one read has brought both, or one is
// after the cursor.
func (e *Engine) ordered() bool { return e.Table.Ordinal() && !e.Table.Ranked() }

// shards are the shards that this replica relays, with the number of rows of each in flight. A shard that is lost keeps
// its count until the last of its rows has landed: invariant 5 of package internal counts rows on the wire, too.
type shards struct {
	active owner.Set
	flying []int       // by shard
	since  []time.Time // when this replica acquired each shard, or was to release it
}

// queried returns the shards for a query, nil for all.
func (s *shards) queried() []int {
	if s.active.Len() == len(s.flying) {
		return nil
	}
	return s.active.Shards()
}

// Own records the shards to relay from now on, and those that are to be released. It returns the shards to be released
// that have nothing in flight any more. What is on the wire of a lost shard is answered and written; all else of it is
// forgotten. If shards were gained, everything is read from the beginning.
//
// The user calls it at each turn. A shard is in at most one of the two sets, and one in leaving is never read here: its
// next owner may begin the moment it has been released.
func (e *Engine) Own(active, leaving owner.Set, now time.Time) (left owner.Set) {
	lost, gained := e.shards.active.Without(active), active.Without(e.shards.active)
	e.fill(now) // a larger part of the shards adds no tokens by itself
	e.shards.active = active
	e.fill(now)
	if lost != (owner.Set{}) {
		e.lose(lost)
	}
	for _, shard := range lost.Or(gained).Shards() {
		e.shards.since[shard] = now
	}
	if gained != (owner.Set{}) {
		// The shards' last owner may have left rows that it published and could not mark. And a page that is under way
		// does not have the rows of the gained shards, so the cursor must not pass them.
		e.unproven = e.Limits.Rows
		e.begins()
	}
	// A leaving shard is released when its last row in flight has landed. Rows that cannot be written would keep it for
	// ever; these are let go.
	for _, shard := range leaving.Shards() {
		if e.shards.flying[shard] > 0 {
			e.letGo(shard, now.Sub(e.shards.since[shard]) >= e.Limits.Patience)
		}
		if e.shards.flying[shard] == 0 {
			left.Add(shard)
		}
	}
	return left
}

// Hint notes that there may be new rows, and whether rows may have been changed by hand: then failed rows may be
// pending again, and keys may wait for rows that are gone. Only a hint that rows were changed asks for a sweep and for
// a list of failed rows. If each writer's ring asked for them, the same rows would be read again all the time.
func (e *Engine) Hint(changed bool) {
	e.ring()
	if changed {
		e.failed.asked, e.sweep.asked = true, true
		e.rereadDue()
	}
}

// Wake returns when to ask again for reads, batches and writes if nothing happens before. Rows may be handed over if
// publish is true. It is a second from now at the latest. A time that has passed means at once, so whatever cannot be
// done now must not count here: in a model that named such times, every fifth turn had nothing to do, and 59 % of the
// turns while the room was full.
func (e *Engine) Wake(publish bool, now time.Time) (at time.Time) {
	at = now.Add(time.Second) // so that the engine is seen to be alive
	earlier := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	for _, a := range []*aside{&e.locked, &e.rejected} {
		if len(a.rows) > 0 && !e.retrying() { // one outcome is tried again at a time, and its result wakes the loop
			earlier(a.due)
		}
	}
	if e.stopping {
		return at
	}
	if e.shards.active.Len() == 0 {
		return at
	}
	for kind := range kinds {
		if due, ok := e.due(kind, now); ok {
			earlier(due)
		}
	}
	if e.waits.room.live > 0 && e.closed < e.room(true) { // else an event makes room first
		earlier(e.waits.room.due)
	}
	// Rows that may go now have been taken by the lanes, or wait for an answer that frees a lane. Only the end of an
	// outage's pause and the next tokens come by time alone.
	waits := e.outage.until.After(now) || e.Rate > 0
	if publish && !e.outage.probing && waits && len(e.ready[0])+len(e.ready[1]) > 0 {
		earlier(later(e.outage.until, e.next(now)))
	}
	return at
}

// Stop drops everything that is not on the wire, and makes Next and Batch return nothing from then on, however often it
// is called. What is being written goes on. The user then waits until [Engine.Busy] is false and all outcomes have been
// given back. What is dropped is pending in the table.
func (e *Engine) Stop() {
	e.stopping = true
	for _, k := range e.keys {
		for _, r := range k.queue {
			e.queued--
			e.drop(k, r)
		}
		k.queue = nil
	}
}

// drop forgets a row that is not published any more. At a stop, one that may have been published counts as unsettled.
func (e *Engine) drop(k *key, r *Row) {
	if !e.stopping || k.unanswered == 0 {
		e.land(r)
	}
}

// Busy reports whether rows are on the wire or reads are under way.
func (e *Engine) Busy() bool { return e.publishing > 0 || e.reads.oldest() != 0 }

// Unsettled returns, after the stop, the number of rows that were published, or may have been, and are not settled.
func (e *Engine) Unsettled() int { return len(e.flying) }
