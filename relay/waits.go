package relay

import (
	"math"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// A wait is a key that may not go on: its head was refused, or what it is published to is in trouble, or rows of it were passed over
// that a catch-up scan has to bring. A row without a key is a key of its own here. What is behind the head is passed over by all reads
// and not kept in memory: the wait knows that there is something, and from where on. Its states are drawn in doc.go.
type wait struct {
	hash  uint64 // of the key, see row.hash
	text  string // the key, where its rows can be read by it and it is short
	shard int
	state waitState
	cause cause
	hold  *hold     // that it waits for, in held, and in asked and trial as its probe
	due   time.Time // in resting
	index int       // in the heap of waits that rest, -1 outside

	head    int64  // the ordinal of the row that may not go
	number  uint64 // the row's, when it was read last
	headID  string // empty in catching, and where many keys wait as one
	delayed bool   // the head is a row that keeps no order: nothing waits behind it, and reads of due rows return it
	trial   *row   // the head, in trial

	low    int64 // the least ordinal of what was passed over, or a lesser one; [nothing] when nothing was
	older  bool  // something of it goes before the head, which is under way
	writes int   // refusals of the key that are being written: in writing, and 1 unless a row came that goes before the head

	expiring bool // its head fails for its age, in writing; so may what is queued behind it

	covered uint32 // in catching: the first scan that brings the key's rows
	next    int64  // the least ordinal of what was passed over since this scan began, which the next one brings; [nothing] when nothing was
	stopped bool   // this scan brings no more of it

	failures int    // trials in a row that ended in being held
	unknown  int    // publishes of the head whose outcome is unknown
	accepted uint64 // messages that the destination had accepted at the last of them
	refusals int64  // of the head, where the table does not count them
}

type waitState uint8

const (
	resting  waitState = iota // for a time, then its head is read again by its id
	held                      // until its cause is gone
	asked                     // its head is being read
	trial                     // its head is in flight
	writing                   // its head's refusal is being written
	catching                  // rows of it are taken from scans alone
	forgotten
)

func (w *wait) When() time.Time { return w.due }
func (w *wait) Place() *int     { return &w.index }

// bars reports whether a row with this ordinal must not go before the head, or before what was passed over. What was passed over itself may
// have been read again since, and go.
func (w *wait) bars(at int64) bool { return at >= w.head || at > w.low }

// nothing is what no row's ordinal is above.
const nothing = math.MaxInt64

// waits are the keys that wait. The first of them are remembered one by one; when there is no room, further ones wait in a crowd, in a
// fixed amount of memory. Only the dispatch touches them.
type waits struct {
	byKey    map[uint64]*wait
	crowd    *crowd // further keys, which wait as one for a time; nil when there are none
	former   *crowd // those for which it is over, and which wait for a scan
	most     int    // of byKey
	due      retry.Alarms[*wait]
	catching map[*wait]struct{} // those that are
	counts   map[cause]int
	bytes    int         // of the ids of heads
	orphaned func(*hold) // called when the probe of a hold has something else to do
}

const (
	// mostWaits is how many keys are remembered one by one. Each takes some 250 bytes with the id of its head.
	mostWaits     = 1 << 17
	mostWaitBytes = 16 << 20 // of keys and ids
	// crowdRest is how long a crowd waits.
	crowdRest = 10 * time.Second
)

func newWaits(most int, orphaned func(*hold)) waits {
	return waits{byKey: map[uint64]*wait{}, most: most, catching: map[*wait]struct{}{}, counts: map[cause]int{}, orphaned: orphaned}
}

// of returns the wait that a key is in, nil if it may go on.
func (ws *waits) of(hash uint64) *wait {
	if len(ws.byKey) > 0 {
		if w := ws.byKey[hash]; w != nil {
			return w
		}
	}
	return ws.inCrowd(hash)
}

// meets returns the wait that keeps a row waiting, if there is one. What scans are to bring a row that keeps no order need not wait for.
func (ws *waits) meets(r *row) *wait {
	w := ws.of(r.hash)
	if r.Delayed && ws.former != nil && w == &ws.former.wait {
		return nil
	}
	return w
}

// full reports whether no more keys are remembered one by one.
func (ws *waits) full() bool { return len(ws.byKey) >= ws.most || ws.bytes >= mostWaitBytes }

// noRoom reports whether a key is not remembered and cannot be.
func (ws *waits) noRoom(hash uint64) bool { return ws.byKey[hash] == nil && ws.full() }

// heads sets the id of the head of w, "" for none.
func (ws *waits) heads(w *wait, id string) {
	if w.headID != id {
		ws.bytes += len(id) - len(w.headID)
		w.headID = strings.Clone(id) // it lies among the bytes of other rows
		w.unknown, w.accepted, w.refusals, w.failures = 0, 0, 0, 0
	}
}

// noShard is the shard of waits that belong to several, or nobody knows to which.
const noShard = -1

// everything is what every row's ordinal is above.
const everything = math.MinInt64

// enter lets w go over into another state.
func (ws *waits) enter(w *wait, s waitState, c cause) {
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

func (ws *waits) count(c cause, n int) {
	if c != "" {
		ws.counts[c] += n
	}
}

// rest lets w wait for a time.
func (ws *waits) rest(w *wait, c cause, due time.Time) {
	ws.enter(w, resting, c)
	w.due = due
	ws.due.Set(w)
}

// low is the ordinal from which a scan has to begin that is to find a row: less than [nothing].
func low(r *row) int64 {
	if r.Position.Unordered() {
		return everything
	}
	return min(r.Position.Ordinal, nothing-1)
}

// passed reports whether something was passed over, which a scan has to bring.
func (w *wait) passed() bool { return w.low != nothing }

// remove forgets a wait.
func (ws *waits) remove(w *wait) {
	ws.enter(w, forgotten, "")
	ws.heads(w, "")
	switch {
	case ws.byKey[w.hash] == w:
		delete(ws.byKey, w.hash)
		ws.bytes -= len(w.text)
	case ws.former != nil && w == &ws.former.wait:
		ws.former = nil
	case ws.crowd != nil && w == &ws.crowd.wait:
		ws.crowd = nil
	}
}

// free forgets the waits for scans: the walk has begun anew, and comes by all of their rows.
func (ws *waits) free() {
	for w := range ws.catching {
		ws.remove(w)
	}
}
