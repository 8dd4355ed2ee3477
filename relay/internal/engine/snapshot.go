package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// A Snapshot is the published state of a destination. It shares no memory with the engine, so any goroutine may read
// it.
type Snapshot struct {
	At                time.Time       // by the engine's clock; zero if no engine runs
	InFlight, Blocked int             // numbers of rows in flight, and of keys that wait
	Stuck             int             // number of rows in flight that cannot be written now
	Full              bool            // the stuck rows leave no room for others
	Why               error           // why they cannot be written
	Held              map[Cause]int64 // rows that are known to wait, by reason; see heldRows
	Holds             []operate.Hold  // oldest first, at most mostHoldsShown
	Down              error           // why nothing can be published
	Note              string          // what is held at the destination, if it is not down
}

// Snapshot returns the present state. The loop takes one ten times a second, so it must cost the same with one hold and
// with ten thousand, and with any number of keys: when it went through all holds, the others' rows were 20 ms late.
func (e *Engine) Snapshot(now time.Time) Snapshot {
	s := Snapshot{
		At:       now,
		InFlight: len(e.flying), Blocked: len(e.resting) + len(e.waits.by),
		Held: e.heldRows(), Holds: e.holds.shown(), Note: e.holds.note(),
		Stuck: e.stuck(), Why: e.why(), Down: e.Down(),
	}
	s.Full = (len(e.flying) >= e.Limits.Rows || e.bytes >= e.Limits.Bytes) && s.Stuck >= len(e.flying)
	return s
}

// heldRows counts the rows that are known to wait, by reason: one for each key, and each row whose outcome cannot be
// written. How many rows come after the first one of a key is not known here: they were never read, or forgotten. In an
// outage, queued rows count one by one.
func (e *Engine) heldRows() map[Cause]int64 {
	counts := maps.Clone(e.held)
	if e.outage.failures > 0 {
		counts[e.outage.cause()] += int64(e.queued)
	}
	counts[CauseMark] += int64(e.stuck())
	return counts
}

// mostHoldsShown is the largest number of holds of a destination that are shown, and of topics of each.
const mostHoldsShown = 20

// shown returns the oldest holds.
func (hs *holds) shown() (shown []operate.Hold) {
	for _, h := range hs.begun[:min(len(hs.begun), mostHoldsShown)] {
		one := operate.Hold{
			Reason: h.cause, What: h.fate.String(), Topics: []string{},
			Error: errtext.Line(h.err), Since: h.since.UTC(),
		}
		for _, t := range h.topics[:min(len(h.topics), mostHoldsShown)] {
			one.Topics = append(one.Topics, t.Topic)
		}
		shown = append(shown, one)
	}
	return shown
}

// note describes what is held: the oldest hold that was logged, with its reason, and the number of others.
func (hs *holds) note() string {
	i := slices.IndexFunc(hs.begun, func(h *hold) bool { return h.logged != "" })
	if i < 0 {
		return ""
	}
	h, more := hs.begun[i], ""
	if n := len(hs.by) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d others)", n)
	}
	what := h.fate.String()
	if len(h.topics) > 0 {
		what = fmt.Sprintf("topic %q", h.topics[0].Topic)
	}
	return fmt.Sprintf("rows of %s are held%s: %v", what, more, h.err)
}

// Leftover describes what is remembered, for tests: after everything is done it is empty. Whatever is added to the
// engine and grows with rows or keys belongs here, or a leak of it is not found.
func (e *Engine) Leftover() string {
	left := [...]int{
		len(e.flying), int(e.bytes), e.queued, len(e.gone), len(e.keys), len(e.waits.by), len(e.holds.by),
		len(e.unwritten) + e.stuck(), len(e.resting),
	}
	if left == [len(left)]int{} {
		return ""
	}
	return fmt.Sprint("in flight, bytes, queued, gone, keys, waiting, holds, to write, resting: ", left)
}
