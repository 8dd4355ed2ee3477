package dispatch

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
)

const (
	// mostAsked is the largest number of heads in one read.
	mostAsked = 500
	// askedInVain is how many of them may be heads that were refused, where very many are tried in vain: other rows never wait for more.
	askedInVain = 100
)

// askedHeads are keys whose heads are to be read, in the order in which their time has come.
type askedHeads []*Wait

// first returns the first keys, at most n. It drops those before them that have something else to do meanwhile, and looks at no
// others: very many may be asked for.
func (a *askedHeads) first(n int) []*Wait {
	all := *a
	kept, seen := 0, 0
	for ; seen < len(all) && kept < n; seen++ {
		if w := all[seen]; w.state == asked {
			all[kept] = w
			kept++
		} else {
			w.listed = nil
		}
	}
	if kept < seen {
		*a = slices.Delete(all, kept, seen)
	}
	return (*a)[:kept:kept]
}

// ask makes a key's head be read.
func (d *Dispatch) ask(w *Wait) {
	d.waits.enter(w, asked, w.cause)
	list := &d.asking
	if w.hold != nil {
		list = &d.askingHeld
	}
	if w.listed == list {
		return
	}
	if other := w.listed; other != nil {
		at := slices.Index(*other, w)
		*other = slices.Delete(*other, at, at+1)
	}
	w.listed = list
	*list = append(*list, w)
}

// firstAsked returns keys whose heads are to be read now, at most n. Those that try a hold have half of the places if there are too
// many: a hold that could be closed does not wait behind 100,000 keys that were refused, nor they behind as many holds. Of an odd
// number of places, such as the only one where the destination has a small rate, the last one is drawn by lot.
func (d *Dispatch) firstAsked(n int) []*Wait {
	refused := n
	if d.headsInVain() {
		refused = min(n, askedInVain)
	}
	probes, others := d.askingHeld.first(n), d.asking.first(refused)
	probes = probes[:min(len(probes), max((n+rand.N(2))/2, n-len(others)))]
	return slices.Concat(probes, others[:min(len(others), n-len(probes))])
}

// MostTrials returns how many heads to read if there is room for n. During an outage it is few, since all of them would
// only try the destination.
func (d *Dispatch) MostTrials(n int) int {
	if d.outage.active() {
		return min(n, probeKeys)
	}
	return n
}

// headsInVain reports whether heads of very many keys are tried in vain.
func (d *Dispatch) headsInVain() bool {
	return d.vain.heads >= vainAfter && d.causes()+len(d.asking)+len(d.askingHeld) >= vainAfter
}

// Trials returns the keys whose heads are to be read now, at most n. Crowds that have waited long enough are left to
// the next scan.
func (d *Dispatch) Trials(n int, now time.Time) []*Wait {
	d.probe(now)
	for w, ok := d.waits.due.Past(now); ok; w, ok = d.waits.due.Past(now) {
		if w.headID == "" {
			d.scatter(now)
			continue
		}
		d.ask(w)
	}
	return d.firstAsked(min(n, mostAsked))
}

// NextTrial calls wake with each time at which there are heads to be read.
func (d *Dispatch) NextTrial(wake func(time.Time)) {
	if len(d.asking)+len(d.askingHeld) > 0 {
		wake(time.Time{})
	}
	if len(d.waits.due) > 0 {
		wake(d.waits.due[0].due)
	}
	if len(d.holds.due) > 0 {
		wake(d.holds.due[0].until)
	}
}

// TrialRest returns how long to rest after a read of heads that took some time. However many keys wait, their heads leave time for
// other reads, and more if they are tried in vain. To publish a head and to write its refusal takes longer than to read it, and five
// hundred in a second are enough: the first that is accepted ends that. With 100,000 keys refused, more than 4,000 were tried in a
// second. The p99 of the others was 2.7 times as long as without them, with five times the tuples read, and is 1.2 times as long since,
// with 1.4 to 1.6 times the tuples (test/bench, trouble).
//
// The rest also gathers what becomes due at about the same time: a read, a look for late rows before it, and a publish take the same
// time for one head as for a hundred. It is short beside the pauses of so many causes. Nothing is to be gathered if not all heads that
// were due have been read.
func (d *Dispatch) TrialRest(read []*Wait, took time.Duration) time.Duration {
	rest := trialRest * took
	if d.headsInVain() {
		refused := 0
		for _, w := range read {
			if w.hold == nil {
				refused++
			}
		}
		rest = max(rest, min(feed.RestShare*took, longestVain), time.Duration(refused)*vainShare)
	}
	if len(d.asking)+len(d.askingHeld) > len(read) {
		return rest
	}
	return max(rest, min(time.Duration(d.causes())*gatherShare, mostGather))
}

const (
	trialRest   = 4                    // as a multiple of the time that the read took
	vainShare   = 2 * time.Millisecond // for each head that is tried in vain
	gatherShare = time.Millisecond     // for each cause that is tried again by itself
	mostGather  = 100 * time.Millisecond
)

// busySoon is the time after which a key is tried again if other rows of it are under way.
const busySoon = 2 * time.Millisecond

// TakeTrials takes the heads that were read. more says that there was no room for all of them. Heads that were not
// found have been relayed, discarded or changed by another session. A head that was read and may not go is left to what its
// key waits for: asked for again, it would take the room of the others.
func (d *Dispatch) TakeTrials(waits []*Wait, rows []outbox.Row, more bool, now time.Time) (taken int) {
	busy := d.underWay()
	for _, w := range waits {
		if _, is := busy[w.hash]; is && w.state == asked {
			d.later(w, now.Add(busySoon))
		}
	}
	taken, _ = d.Take(rows, fromTrial, now)
	read := make(map[string]bool, len(rows))
	for i := range rows {
		read[rows[i].ID()] = true
	}
	for _, w := range waits {
		switch {
		case w.state != asked:
		case more && !read[w.headID]:
			d.later(w, now)
		default:
			d.headGone(w)
		}
	}
	return taken
}

// underWay returns the hashes of the keys that have rows queued or on the wire.
func (d *Dispatch) underWay() map[uint64]struct{} {
	busy := map[uint64]struct{}{}
	for i := range d.lanes {
		l := &d.lanes[i]
		for _, r := range l.rows[l.head:] {
			busy[r.Hash] = struct{}{}
		}
		for _, r := range l.wire {
			busy[r.Hash] = struct{}{}
		}
	}
	return busy
}

// mayComeBack returns the hashes of the keys that have rows under way, or failing ones, which are tried again if their failures cannot be
// written.
func (d *Dispatch) mayComeBack() map[uint64]struct{} {
	busy := d.underWay()
	for hash := range d.failing.rows {
		busy[hash] = struct{}{}
	}
	return busy
}

// headGone goes on with a key whose head no longer exists.
func (d *Dispatch) headGone(w *Wait) {
	if h := w.hold; h != nil {
		h.until = time.Time{}
	}
	if w.passed() {
		w.low = min(w.low, w.head)
	}
	d.goOn(w)
}

// later makes a head be read later.
func (d *Dispatch) later(w *Wait, due time.Time) {
	if h := w.hold; h != nil {
		d.waits.enter(w, held, w.cause)
		h.until = due
		d.holds.due.Set(h)
		return
	}
	d.waits.rest(w, w.cause, due)
}

// NotRead makes heads be read again after their read has failed.
func (d *Dispatch) NotRead(waits []*Wait, due time.Time) {
	for _, w := range waits {
		if w.state == asked {
			d.later(w, due)
		}
	}
}
