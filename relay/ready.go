package relay

import (
	"errors"
	"fmt"
	"time"
)

// A Check is one answer of /readyz.
type Check struct {
	Name string
	Err  error  // why the relay is not ready
	Note string // what there is to know although it is
}

// Stuck is how long the relay's loop may stand still before it is taken for dead.
const Stuck = 30 * time.Second

var errStarting = errors.New("starting")

// Live returns an error when the relay's own loop has stopped turning. Database and brokers have no say.
func (r *Relay) Live() error {
	if age := time.Since(time.Unix(0, r.beat.Load())); age > Stuck {
		return fmt.Errorf("the loop has not turned for %v", age.Round(time.Second))
	}
	return nil
}

// Ready returns whether the relay could relay now, check by check. A standby is ready with the database
// alone.
func (r *Relay) Ready() []Check {
	_, setup := r.state()
	state, _ := r.owner.State()
	failed := r.database.state()
	checks := []Check{{Name: "table", Err: setup}, {Name: "database", Err: failed}}
	ownership := Check{Name: "ownership", Err: state.Err}
	switch {
	case setup != nil:
		return checks[:1]
	case state.Err != nil:
	case state.Unable:
		ownership.Err = fmt.Errorf("this replica cannot publish and another one can, so it takes no shards; shards still held: %d", state.Leaving.Len()+state.Owned.Len())
	case state.Note != "":
		ownership.Note = "standing by: " + state.Note
	case !state.Holds():
		ownership.Note = fmt.Sprintf("standing by: other replicas relay; replicas: %d", state.Replicas)
	default:
		ownership.Note = fmt.Sprintf("relays %d of %d shards; replicas: %d", state.Owned.Len()+state.Leaving.Len(), r.config.Shards, state.Replicas)
	}
	checks = append(checks, ownership)
	now := r.metrics.snapshot()
	for _, p := range r.probes {
		c := Check{Name: "destination " + p.destination.Name, Err: p.usable(now.down), Note: now.topics[p.destination]}
		if c.Err != nil && !state.Holds() && !state.Unable {
			c.Note, c.Err = "not needed while standing by: "+c.Err.Error(), nil
		}
		checks = append(checks, c)
	}
	if r.config.ListenChannel != "" && state.Holds() && !r.listener.Up() {
		checks = append(checks, Check{Name: "listener", Note: "not listening; rows are found by polling"})
	}
	return checks
}
