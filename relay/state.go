package relay

import (
	"cmp"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// A State is what this process knows of a destination, for the status page. The loops publish it a few times a second.
type State struct {
	Name     string
	Up       bool   // its broker can be reached and takes messages
	Reason   string // why not; else empty
	Paused   bool   // nothing is published to it
	InFlight int
	Blocked  int // keys that wait
	Held     []HeldRows
	Holds    []Hold // the oldest first, at most [mostHoldsShown]
	Relayed  int64  // rows since the process began
	History  []Interval
}

// HeldRows are rows that wait for one reason, a label of the metric rows_held.
type HeldRows struct {
	Reason string
	Rows   int64
}

// A Hold is something at the broker that is in trouble.
type Hold struct {
	Reason string // as in [HeldRows]
	Kind   string // of what is in trouble: a topic, a partition
	What   string // the same with its name
	Topics []string
	Since  time.Time
	err    error
}

// Error returns the broker's last answer, on one line.
func (h Hold) Error() string {
	if h.err == nil {
		return ""
	}
	return errtext.Line(h.err)
}

// mostHoldsShown is how many holds of a destination are shown, and of how many topics each.
const mostHoldsShown = 20

// shown returns the oldest holds.
func (hs *holds) shown() []Hold {
	var oldest []*hold
	older := func(a, b *hold) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.fate.Name, b.fate.Name)) }
	for _, h := range hs.byFate {
		if len(oldest) == mostHoldsShown && older(h, oldest[mostHoldsShown-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(oldest, h, older)
		oldest = slices.Insert(oldest, at, h)
		oldest = oldest[:min(len(oldest), mostHoldsShown)]
	}
	shown := make([]Hold, len(oldest))
	for i, h := range oldest {
		shown[i] = Hold{Reason: string(h.cause), Kind: h.fate.Kind.String(), What: h.fate.String(), Since: h.since, err: h.err}
		for _, t := range h.topics[:min(len(h.topics), mostHoldsShown)] {
			shown[i].Topics = append(shown[i].Topics, t.name)
		}
	}
	return shown
}

// States returns what the process knows of each configured destination, in their order. It touches neither database nor brokers.
func (r *Relay) States() []State {
	now := time.Now()
	var all []State
	for _, p := range r.probes {
		s := r.metrics.of(p.destination)
		state := State{Name: p.destination.Name, Up: true, Paused: p.destination.paused.Load(), InFlight: s.inFlight, Blocked: s.blocked, Holds: s.holds}
		if err := r.usable(p); err != nil {
			state.Up, state.Reason = false, errtext.Line(err)
		}
		for _, c := range causes {
			if s.held[c] > 0 {
				state.Held = append(state.Held, HeldRows{string(c), s.held[c]})
			}
		}
		state.Relayed, state.History = r.metrics.destinations[p.destination].history.read(now)
		all = append(all, state)
	}
	return all
}

// Owned returns how many shards this replica holds.
func (r *Relay) Owned() int {
	state, _ := r.owner.State()
	return state.Owned.Len() + state.Leaving.Len()
}

// Tables returns the outbox as each configured destination sees it, in their order; nil while it has not been found. Where the table lacks
// a destination's columns there is none.
func (r *Relay) Tables() []*outbox.Table {
	table, _ := r.state()
	if table == nil {
		return nil
	}
	all := make([]*outbox.Table, len(r.probes))
	for i := range all { // others than the configured destinations come last
		if view, err := table.For(r.config.Outbox.Views[i]); err == nil {
			all[i] = view
		}
	}
	return all
}
