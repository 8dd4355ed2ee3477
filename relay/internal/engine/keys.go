package engine

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// A key has rows in flight, or is closed and read by itself. A row without a key is a key of its own, by its id.
type key struct {
	name    uint64 // hash, made different for due
	hash    uint64
	due     bool // its rows are read by their available_at
	keyless bool
	shard   int
	state   state
	queue   []*Row // to be published, in table order
	wire    int    // rows handed to a publisher: one call at a time
	flying  int    // rows in flight: in queue, on the wire, or being written
	bytes   int64  // of these
	writes  int    // refusals that are being written
	ready   bool   // listed for publishing

	until time.Time // of resting
	place int       // among the resting keys, -1 outside
	cause Cause     // of resting
	hold  *hold     // that the key tries

	tries      int    // tries in vain in a row
	refused    int64  // of these, refusals
	unanswered int    // publishes of its first row without an answer, in a row
	accepted   uint64 // number of rows accepted at the destination before the last of these

	reads   uint64 // number of the read of its own that is under way
	tried   bool   // what is queued was read by itself, and no row of it was accepted yet
	rows    int    // number of rows that the next read brings
	brought int    // rows that such reads have brought since it was closed
	last    int64  // ordinal of the last row that they have brought
	low     *int64 // ordinal from which the next read begins; nil for the very beginning
	missed  bool   // a row of it was dropped since the last read began
	dropped int64  // lowest ordinal of such rows
}

// A state says where the rows of a key come from. All but open and waiting are closed keys that are read by themselves.
type state uint8

const (
	open     state = iota // the tail
	resting               // nowhere, until a time; then its first rows are read
	reading               // its first rows are being read
	draining              // some of its first rows are queued; then the next are read
	writing               // nowhere, until the refusal of its first row is written
	waiting               // nowhere, until what it waits for is over; its hash is among the waiting keys
)

// fewRows is how many rows of a key are read first: one to try, and one that shows whether there are more.
const fewRows = 2

// keyOf returns a key, which becomes known.
func (e *Engine) keyOf(hash uint64, due, keyless bool, shard int) *key {
	name := nameOf(hash, due)
	k := e.keys[name]
	if k == nil {
		k = &key{name: name, hash: hash, due: due, keyless: keyless, shard: shard, place: -1}
		e.keys[name] = k
	}
	return k
}

// When and Place make a key rest; see [retry.Alarms].
func (k *key) When() time.Time { return k.until }
func (k *key) Place() *int     { return &k.place }

// follows reports whether a queued row of the key comes after another one, or may. Only the database knows the order
// of equal order values, but the rows of a read are in order; and rows after the cursor come after all that the tail
// has brought.
func (e *Engine) follows(k *key, r *outbox.Row, read uint64) bool {
	n := len(k.queue)
	if n == 0 || r.Delayed {
		return false
	}
	last := k.queue[n-1]
	if !e.ordered {
		return last.read != read && !r.After
	}
	at := last.Position.Ordinal
	return r.Position.Ordinal < at || r.Position.Ordinal == at && last.read != read
}

// enter moves a key to another state.
func (e *Engine) enter(k *key, s state) {
	if k.place >= 0 {
		e.resting.Cancel(k)
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
// late meanwhile goes first.
func (e *Engine) shut(k *key, s state) {
	if k.state == waiting {
		e.forgo(k.name)
	}
	for _, r := range k.queue {
		e.queued--
		e.land(r)
	}
	e.unprobe(k)
	k.queue, k.rows, k.low, k.missed, k.brought, k.tried = nil, fewRows, nil, false, 0, false
	e.enter(k, s)
}

// rest closes a key until a time, when it is read from its beginning.
func (e *Engine) rest(k *key, c Cause, due time.Time) {
	e.shut(k, resting)
	e.restIn(k, c, due)
}

// restIn makes a key that is closed already rest, if there is room to remember it; else it waits for room. Keys that
// were tried in vain may take three quarters of the room, and give their places up to others that wait for room.
func (e *Engine) restIn(k *key, c Cause, due time.Time) {
	vain := k.tries > 0 || k.refused > 0
	if e.closed > e.room(vain) || vain && e.waits.lack > 0 {
		e.wait(k, nil)
		return
	}
	e.until(k, c, due)
}

// room returns how many keys may be closed at a time.
func (e *Engine) room(vain bool) int {
	if vain {
		return max(1, e.Limits.Keys*3/4)
	}
	return e.Limits.Keys
}

// reopen makes a key's rows come from the tail again.
func (e *Engine) reopen(k *key) {
	e.enter(k, open)
	k.low, k.missed = nil, false
	e.idle(k)
}

// idle forgets a key that has no rows in flight and is not read by itself.
func (e *Engine) idle(k *key) {
	if !isClosed(k.state) && k.flying == 0 && e.keys[k.name] == k {
		delete(e.keys, k.name)
	}
}

// drops reports whether a row that the tail or the sweep has read is dropped, since its key is closed.
func (e *Engine) drops(key uint64, ordinal int64) bool {
	k := e.keys[key]
	if k == nil || !isClosed(k.state) {
		return e.waits.has(key)
	}
	if !k.missed || ordinal < k.dropped {
		k.missed, k.dropped = true, ordinal
	}
	return true
}

// pause returns how long something rests that was tried in vain some times, without an attempt being spent.
func (e *Engine) pause(tries int) time.Duration {
	most := retry.LongestPause(len(e.holds.by)+len(e.resting), max(1, tries))
	return most/2 + e.Jitter(most/2)
}

// keysDue returns when the next read of keys may begin, if there is one.
func (e *Engine) keysDue() (at time.Time, ok bool) {
	if len(e.resting) == 0 || len(e.gone) >= e.Limits.Rows || e.freeRows(0) <= 0 {
		return at, false
	}
	if bytes, _ := e.freeBytes(Keys, e.reads.wants); bytes == 0 {
		return at, false
	}
	return later(e.resting[0].until, e.resume), true
}

const (
	shortRest = 2 * time.Millisecond // before a key is read again of which no row could be taken

	mostAsked = 500
	mostVain  = 500 // tries a second, if so many were in vain since the last key went on
)

// readKeys returns the read of keys whose time has come.
func (e *Engine) readKeys(now time.Time) *Read {
	r := &Read{Kind: Keys}
	room, most := e.freeRows(0), mostAsked
	if e.vain > mostVain {
		most = mostVain / 10
		defer func() { e.resume = now.Add(time.Duration(len(r.asked)) * time.Second / mostVain) }()
	}
	due := e.resting[0].due
	r.keys = outbox.KeysQuery{Due: due, Blocked: e.blocks}
	r.bytes, r.keys.First = e.freeBytes(Keys, e.reads.wants)
	r.keys.Bytes = r.bytes
	var others []*key // of the other kind
	for len(e.resting) > 0 && !e.resting[0].until.After(now) && len(r.asked) < most && room > 0 {
		k := e.resting[0]
		n := min(k.rows, room)
		e.enter(k, reading)
		if k.due != due {
			others = append(others, k)
			continue
		}
		if k.low != nil && k.missed {
			k.low = new(min(*k.low, k.dropped))
		}
		room -= n
		r.keys.Rows += n + k.flying
		r.rows += n
		r.keys.Asks = append(r.keys.Asks, outbox.Ask{Hash: k.hash, Limit: n + k.flying, From: k.low})
		r.asked = append(r.asked, k)
		k.reads, k.missed = e.reads.last+1, false
	}
	for _, k := range others {
		e.again(k, now)
	}
	return r
}

// took queues the rows of keys that were read.
func (e *Engine) took(r *Read, now time.Time) (fresh int) {
	for i, k := range r.asked {
		if e.keys[k.name] != k || k.state != reading || k.reads != r.number {
			continue // its shard was lost
		}
		if r.err != nil || r.Wants() > 0 {
			e.again(k, now.Add(e.pause(k.tries)))
			continue
		}
		page := r.KeysPage.Keys[i]
		if page.Blocked {
			e.block(k.hash, k.shard)
			continue
		}
		fresh += e.drain(k, page, r, now)
	}
	return fresh
}

// drain queues the first rows of a key. If nothing of it is left in the table, and the tail has dropped nothing
// meanwhile, then everything that the read saw is in flight, and what it did not see comes after the tail's next page
// began: the key is open.
func (e *Engine) drain(k *key, page outbox.KeyRows, r *Read, now time.Time) (fresh int) {
	if len(page.Rows) == 0 && !page.All {
		// The other keys have taken all of the read's room, which says nothing about this one. It is asked for again as
		// it was, before those that have become due since, with few rows, and goes on trying its hold.
		e.again(k, k.until)
		return 0
	}
	all := page.All && !k.missed
	next := now.Add(shortRest)
	for i := range page.Rows {
		row := &page.Rows[i]
		if e.elsewhere(row.Identity(), k.name) { // its former key's answer is awaited
			all, next = false, now.Add(e.pause(1))
			break
		}
		if e.freeRows(0) <= 0 {
			all = false
			break
		}
		k.last = row.Position.Ordinal
		if nameOf(row.Hash, row.Delayed) == k.name && e.take(row, k, r.number, now) {
			fresh++
		}
	}
	k.brought += len(page.Rows)
	k.tried = fresh > 0
	if h := k.hold; h != nil && (len(k.queue) == 0 || !h.concerns(k.queue[0])) {
		h.gone++ // what was to try it is gone, or has another topic
		e.unprobe(k)
	}
	switch {
	case all:
		e.reopen(k)
	case len(k.queue) == 0 && k.wire == 0:
		e.further(k, next)
	default:
		e.enter(k, draining)
	}
	return fresh
}

// further makes the next rows of a key be read, from its beginning again: a row that was committed late goes first. Of
// a key with very many rows the reads go on where the last one has ended, since each would go over the dead versions
// of all rows that were brought.
func (e *Engine) further(k *key, at time.Time) {
	if k.rows, k.low = min(8*k.rows, e.Limits.Batch), nil; k.brought > e.Limits.Hot && e.ordered {
		k.low = new(k.last)
	}
	e.again(k, at)
}

// again makes a key rest that keeps its place.
func (e *Engine) again(k *key, at time.Time) { e.until(k, causeOrder, at) }

func (e *Engine) until(k *key, c Cause, at time.Time) {
	e.enter(k, resting)
	k.until, k.cause = at, c
	e.held[c]++
	e.resting.Set(k)
}
