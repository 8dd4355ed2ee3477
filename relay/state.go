package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// A State is what this process knows of a destination, for the status page. The loops update it a few times a second.
type State struct {
	Name     string
	Up       bool   // the broker can be reached and takes messages
	Reason   string // why Up is false; otherwise empty
	Paused   bool   // nothing is published to it
	InFlight int
	Blocked  int // number of keys that wait
	Held     []HeldRows
	Holds    []Hold // oldest first, at most 20
	Relayed  int64  // rows since the process began
	History  []Interval
}

// A Hold is something at the broker that is in trouble, so that rows wait for it.
type Hold struct {
	Reason string    // a label of the metric rows_held
	Kind   string    // topic, partition or queue
	What   string    // the kind with the name
	Topics []string  // the rows' topics, at most 20
	Since  time.Time // when the broker first answered so
	Answer string    // the broker's last answer, on one line
}

// An Interval is a part of the last hour.
type Interval struct {
	From            time.Time
	Length          time.Duration
	Relayed, Failed int64          // rows
	P50, P99        *time.Duration // time from when a row was due until it was relayed; nil if none was
}

// HeldRows counts the rows that wait for one reason, a label of the metric rows_held.
type HeldRows struct {
	Reason string
	Rows   int64
}

// States returns what the process knows of each configured destination, in the order of the configuration. It reaches
// neither the database nor the brokers.
func (r *Relay) States() []State {
	now := time.Now()
	var all []State
	for _, d := range configured(r.config.Destinations) {
		s := d.snapshot()
		state := State{
			Name: d.Name, Up: true, Paused: d.paused.Load(),
			InFlight: s.InFlight, Blocked: s.Blocked,
		}
		for _, h := range s.Holds {
			state.Holds = append(state.Holds, Hold{h.Reason, h.Kind, h.What, h.Topics, h.Since, h.Error()})
		}
		if err := d.unusable(); err != nil {
			state.Up, state.Reason = false, errtext.Line(err)
		}
		for _, c := range engine.Causes {
			if s.Held[c] > 0 {
				state.Held = append(state.Held, HeldRows{c, s.Held[c]})
			}
		}
		relayed, history := d.measured.History.Read(now)
		state.Relayed = relayed
		for _, i := range history {
			state.History = append(state.History, Interval(i))
		}
		all = append(all, state)
	}
	return all
}

// Owned returns how many shards this replica holds. Destinations with columns of their own have shards of their own.
func (r *Relay) Owned() (shards int) {
	states, _ := r.owner.States()
	for _, s := range states {
		shards += s.Owned.Len() + s.Leaving.Len()
	}
	return shards
}
