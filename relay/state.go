package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
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

// A Hold is something at the broker that is in trouble: a topic, a partition or a queue.
type Hold = engine.Hold

// An Interval is a part of the last hour, with the rows that were relayed and that failed in it, and how long they
// took.
type Interval = measure.Interval

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
			InFlight: s.InFlight, Blocked: s.Blocked, Holds: s.Holds,
		}
		if err := d.unusable(); err != nil {
			state.Up, state.Reason = false, errtext.Line(err)
		}
		for _, c := range engine.Causes {
			if s.Held[c] > 0 {
				state.Held = append(state.Held, HeldRows{c, s.Held[c]})
			}
		}
		state.Relayed, state.History = d.measured.History.Read(now)
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

// Tables returns the outbox as each configured destination sees it, in the order of the configuration, or nil while the
// outbox has not been found. The entry of a destination whose columns the table lacks is nil.
func (r *Relay) Tables() []*outbox.Table {
	table, _ := r.state()
	if table == nil {
		return nil
	}
	return r.views(table)[:len(configured(r.config.Destinations))]
}
