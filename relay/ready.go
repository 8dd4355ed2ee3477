package relay

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// A Check is one line of the answer of /readyz.
type Check struct {
	Name string
	Err  error  // why the relay is not ready
	Note string // what is worth knowing although it is ready
}

// Stuck is how long the relay's loop may stand still before it counts as dead.
const Stuck = 30 * time.Second

var errStarting = errors.New("starting")

// Live returns an error if the relay's own loop has stopped turning. The state of the database and the brokers does not
// matter.
func (r *Relay) Live() error {
	for _, d := range r.config.Destinations {
		beat := d.beat.Load()
		if age := time.Since(time.Unix(0, beat)); beat != 0 && age > Stuck {
			return fmt.Errorf("the loop of destination %s has not turned for %v", d.Name, age.Round(time.Second))
		}
	}
	return nil
}

// Ready returns whether the relay could relay now, check by check. A standby needs only the database to be ready.
func (r *Relay) Ready() []Check {
	_, setup := r.state()
	state, _ := r.owner.State()
	now := allOf(r.config.Destinations)
	checks := []Check{{Name: "database", Err: r.databaseTrouble()}, {Name: "table", Err: setup}, {Name: "ownership"}}
	table, ownership := &checks[1], &checks[2]
	if outbox.Unreachable(setup) {
		table.Err = errNotFound
	}
	standby := false
	switch {
	case setup != nil:
		ownership.Note = "decided when the table is found"
	case state.Err != nil:
		ownership.Err = state.Err
	case state.Unable:
		ownership.Err = fmt.Errorf("this replica cannot publish and another one can, so it takes no shards; shards still held: %d",
			state.Leaving.Len()+state.Owned.Len())
	case state.Note != "":
		standby, ownership.Note = !state.Holds(), "standing by: "+state.Note
	case !state.Holds():
		standby, ownership.Note = true, fmt.Sprintf("standing by: other replicas relay; replicas: %d", state.Replicas)
	default:
		ownership.Note = fmt.Sprintf("relays %d of %d shards; replicas: %d",
			state.Owned.Len()+state.Leaving.Len(), r.config.Shards, state.Replicas)
	}
	for _, d := range configured(r.config.Destinations) {
		c := Check{Name: "destination " + d.Name, Err: d.unusable(), Note: d.snapshot().Note}
		if c.Err != nil && standby {
			c.Note, c.Err = "not needed while standing by: "+c.Err.Error(), nil
		}
		if d.paused.Load() {
			c.Note = "paused"
			if c.Err != nil {
				c.Note, c.Err = "paused, and it could not be used: "+c.Err.Error(), nil
			}
		}
		checks = append(checks, c)
	}
	if now.Stuck > 0 {
		c := Check{Name: "marks", Note: fmt.Sprintf("rows that are published or refused and cannot be written now: %d", now.Stuck)}
		if len(r.config.Destinations) > 1 {
			c.Note += ", of " + strings.Join(stuckAt(r.config.Destinations), " and ")
		}
		if now.Why != nil {
			c.Note += "; " + now.Why.Error()
		}
		if now.Full {
			c.Note, c.Err = "", fmt.Errorf("no more rows are read, since these leave no room for others: %s", c.Note)
		}
		checks = append(checks, c)
	}
	if r.plan.Channel != "" && state.Holds() && !r.listener.Up() {
		checks = append(checks, Check{Name: "listener", Note: "not listening; rows are found by polling"})
	}
	return checks
}

// stuckAt returns the names of the destinations with rows that cannot be written now.
func stuckAt(destinations []*Destination) (names []string) {
	for _, d := range destinations {
		if d.snapshot().Stuck > 0 {
			names = append(names, d.Name)
		}
	}
	return names
}

// errNotFound replaces the table's state while the database does not say whether the table exists.
var errNotFound = errors.New("not looked up yet: the database cannot be reached")

// databaseTrouble returns why the database cannot be used, or nil if it can.
func (r *Relay) databaseTrouble() error {
	if err := r.unreachable(); err != nil {
		return err
	}
	return r.database.state()
}

// unreachable returns why the last contact with the database failed, for any of those who use it: the opening of the
// table, the owner of shards with its control connection, or the reads and writes.
func (r *Relay) unreachable() error {
	_, setup := r.state()
	state, _ := r.owner.State()
	for _, err := range []error{setup, state.Err, r.database.state()} {
		if errors.Is(err, errStarting) || outbox.Unreachable(err) && !owner.Answered(err) {
			return err
		}
	}
	return nil
}
