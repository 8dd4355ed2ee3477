package dispatch

import (
	"math"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// A Wait is a key that may not go on: its head was refused, what it is published to is in trouble, or rows of it were
// passed over that a catch-up scan has to bring. A row without a key is treated as a key of its own. All reads pass
// over the rows of the key after the head, and they are not kept in memory: the wait records that they exist, and where
// they begin. The states are drawn in doc.go.
type Wait struct {
	hash   uint64 // hash of the key; see Row.Hash
	key    key    // with its text if that is short and the rows can be read by it; the zero key for a crowd
	shard  int
	state  waitState
	cause  Cause
	hold   *hold       // hold that it waits for, in held, and in asked and trial as the hold's probe
	due    time.Time   // end of the rest, in resting
	index  int         // index in the heap of resting waits; -1 if it is not there
	listed *askedHeads // the list of keys whose heads are to be read that it is in

	head    int64  // ordinal of the row that may not go
	number  uint64 // number of that row when it was last read
	headID  string // empty in catching, and for a crowd
	delayed bool   // the head is a row that keeps no order: nothing waits for it, and reads of due rows return it
	trial   *Row   // the head, in trial

	low    int64 // least ordinal of what was passed over, or a lower one; [nothing] if nothing was
	older  bool  // something of the key goes before the head, which is under way
	writes int   // refusals of the key that are being written: 1 in writing, or more if a row came that goes before the head

	expiring bool // in writing, the head fails because of its age; so may later rows of the key that are queued

	covered uint32 // in catching: the first scan that brings the key's rows
	next    int64  // least ordinal of what was passed over since that scan began, for the next scan; [nothing] if nothing was
	stopped bool   // that scan brings no more rows of the key

	failures int    // trials in a row that ended in being held
	unknown  int    // publishes of the head whose outcome is unknown
	accepted uint64 // number of messages that the destination had accepted at the last of these publishes
	refusals int64  // refusals of the head, if the table does not count them
}

type waitState uint8

const (
	resting  waitState = iota // for a time; then its head is read again by its id
	held                      // until its cause is gone
	asked                     // its head is being read
	trial                     // its head is in flight
	writing                   // its head's refusal is being written
	catching                  // its rows are taken only from scans
	forgotten
)

// Head returns the id of the row that may not go.
func (w *Wait) Head() string { return w.headID }

// When returns the end of the rest.
func (w *Wait) When() time.Time { return w.due }

// Place returns where the wait's index among the alarms is kept.
func (w *Wait) Place() *int { return &w.index }

// bars reports whether a row must wait for the head of its key, or for rows that were passed over. The row that was passed over first
// is not barred: it may have been read again since, and may go.
func (d *Dispatch) bars(w *Wait, r *Row) bool {
	at := d.lowIn(w, r)
	return at >= w.head || at > w.low
}

// lowIn returns an ordinal at which a scan can begin that is to find a row of a key that waits. It is less than the head's if the row
// goes before the head, also if both have the same order value.
func (d *Dispatch) lowIn(w *Wait, r *Row) int64 {
	at := low(r)
	if at == w.head && d.ordered() && d.beforeHead(w, r) {
		return d.below(at)
	}
	return at
}

// beforeHead reports whether a row goes before the head of its key. Of rows with the same order value whose ids do not tell, the one
// that was read first does.
func (d *Dispatch) beforeHead(w *Wait, r *Row) bool {
	at, head := low(r), outbox.At(r.Position.Ordinal, w.headID)
	switch {
	case at != w.head:
		return at < w.head
	case w.headID == "", w.headID == r.ID(), d.Table.Before(head, r.Position):
		return false
	case d.Table.Before(r.Position, head):
		return true
	}
	return r.number < w.number
}

// below returns a lower ordinal where several rows may have the same order value. If one of them is passed over there, all others lie
// after it, as some of them do.
func (d *Dispatch) below(at int64) int64 {
	if d.Table.Unique() {
		return at
	}
	return max(at, everything+1) - 1
}

// nothing is greater than every row's ordinal.
const nothing = math.MaxInt64

// waits are the keys that wait. The first of them are remembered one by one. When there is no more room, further keys
// wait in a crowd, in a fixed amount of memory. Only the dispatch touches them.
type waits struct {
	byKey    map[uint64]*Wait
	crowd    *crowd // further keys, which wait together for a time; nil if there are none
	former   *crowd // the last crowd, whose time is over and which waits for a scan
	most     int    // largest number of keys in byKey
	due      retry.Alarms[*Wait]
	catching map[*Wait]struct{} // the waits in catching
	counts   map[Cause]int
	bytes    int         // bytes of the ids of heads, and of keys
	orphaned func(*hold) // called when the probe of a hold has something else to do
}

const (
	// mostWaits is how many keys are remembered one by one. Each takes about 250 bytes with the id of its head.
	mostWaits     = 1 << 17
	mostWaitBytes = 16 << 20 // bytes of keys and ids
	// crowdRest is how long a crowd waits.
	crowdRest = 10 * time.Second
)

func newWaits(most int, orphaned func(*hold)) waits {
	return waits{byKey: map[uint64]*Wait{}, most: most, catching: map[*Wait]struct{}{}, counts: map[Cause]int{}, orphaned: orphaned}
}

// of returns the wait that a key is in, or nil if the key may go on.
func (ws *waits) of(hash uint64) *Wait {
	if len(ws.byKey) > 0 {
		if w := ws.byKey[hash]; w != nil {
			return w
		}
	}
	return ws.inCrowd(hash)
}

// meets returns the wait that keeps a row waiting, or nil. A row that keeps no order need not wait for what scans are
// to bring.
func (ws *waits) meets(r *Row) *Wait {
	w := ws.of(r.Hash)
	if r.Delayed && ws.former != nil && w == &ws.former.Wait {
		return nil
	}
	return w
}

// full reports whether no more keys are remembered one by one.
func (ws *waits) full() bool { return len(ws.byKey) >= ws.most || ws.bytes >= mostWaitBytes }

// noRoom reports whether a key is not remembered and cannot be.
func (ws *waits) noRoom(hash uint64) bool { return ws.byKey[hash] == nil && ws.full() }

// heads sets the id of the head of w, or "" for none.
func (ws *waits) heads(w *Wait, id string) {
	if w.headID != id {
		ws.bytes += len(id) - len(w.headID)
		w.headID = strings.Clone(id) // the id lies among the bytes of other rows
		w.unknown, w.accepted, w.refusals, w.failures = 0, 0, 0, 0
	}
}

// noShard is the shard of waits with keys of several shards, or of an unknown shard.
const noShard = -1

// everything is at most every row's ordinal.
const everything = math.MinInt64

// enter moves w to another state.
func (ws *waits) enter(w *Wait, s waitState, c Cause) {
	ws.due.Cancel(w)
	if w.cause != c {
		ws.count(w.cause, -1)
		ws.count(c, 1)
	}
	if delete(ws.catching, w); s == catching {
		ws.catching[w] = struct{}{}
	}
	w.state, w.cause, w.trial, w.expiring = s, c, nil, false
	if h := w.hold; h != nil && s != held && s != asked && s != trial {
		w.hold = nil
		if h.probe == w {
			ws.orphaned(h)
		}
	}
}

func (ws *waits) count(c Cause, n int) {
	if c != "" {
		ws.counts[c] += n
	}
}

// rest makes w wait until a time.
func (ws *waits) rest(w *Wait, c Cause, due time.Time) {
	ws.enter(w, resting, c)
	w.due = due
	ws.due.Set(w)
}

// low returns an ordinal at which a scan can begin that is to find the row. It is less than [nothing].
func low(r *Row) int64 {
	if r.Position.Unordered() {
		return everything
	}
	return min(r.Position.Ordinal, nothing-1)
}

// passed reports whether rows were passed over that a scan has to bring.
func (w *Wait) passed() bool { return w.low != nothing }

// remove forgets a wait.
func (ws *waits) remove(w *Wait) {
	ws.enter(w, forgotten, "")
	ws.heads(w, "")
	switch {
	case ws.byKey[w.hash] == w:
		delete(ws.byKey, w.hash)
		ws.bytes -= len(w.key.text)
	case ws.former != nil && w == &ws.former.Wait:
		ws.former = nil
	case ws.crowd != nil && w == &ws.crowd.Wait:
		ws.crowd = nil
	}
}
