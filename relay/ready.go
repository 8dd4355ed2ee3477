package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// A Check is one line of the answer of /readyz.
type Check struct {
	Name string
	Err  error  // why the relay is not ready
	Note string // what is worth knowing although it is ready
}

// stuckAfter is how long the relay's loop may stand still before it counts as dead.
const stuckAfter = 30 * time.Second

var errStarting = errors.New("starting")

// Live returns an error if the relay's own loop has stopped turning. The state of the database and the brokers does not
// matter: starting the relay again repairs neither, and may publish rows again that were accepted and not yet marked.
func (r *Relay) Live() error {
	for _, d := range r.config.Destinations {
		last := d.snapshot().At
		if age := time.Since(last); !last.IsZero() && age > stuckAfter {
			return fmt.Errorf("the loop of destination %s has not turned for %v", d.Name, age.Round(time.Second))
		}
	}
	return nil
}

// readyEvery is the time between two looks of [Relay.WaitReady].
const readyEvery = 20 * time.Millisecond

// WaitReady waits until the relay, which runs in another goroutine, is ready: no [Check] of [Relay.Ready] has an error.
// If ctx ends first, the error is its cause with what is not ready.
func (r *Relay) WaitReady(ctx context.Context) error {
	for {
		err := r.unready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the relay is not ready: %w", errors.Join(err, context.Cause(ctx)))
		case <-time.After(readyEvery):
		}
	}
}

// unready returns why the relay is not ready, or nil if it is.
func (r *Relay) unready() error {
	var errs []error
	for _, c := range r.Ready() {
		if c.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, c.Err))
		}
	}
	return errors.Join(errs...)
}

// Ready returns whether the relay could relay now, check by check. A standby needs only the database to be ready: it is
// ready while it stands by, since a rolling update would never finish otherwise. It reads what others have recorded,
// asks neither the database nor a broker, and does not block.
func (r *Relay) Ready() []Check {
	_, setup := r.state()
	states, _ := r.owner.States()
	ownership := r.checkOwnership(setup, states)
	if outbox.Unreachable(setup) {
		setup = errNotFound
	}
	checks := []Check{{Name: "database", Err: r.databaseTrouble()}, {Name: "table", Err: setup}, ownership}
	for _, d := range r.config.Destinations {
		waits := func(s owner.State) bool { return s.Column == d.group() && !s.Holds() }
		standby := setup == nil && ownership.Err == nil && slices.ContainsFunc(states, waits)
		checks = append(checks, d.checkUsable(standby))
		if now := d.snapshot(); now.Held[engine.CauseMark] > 0 {
			checks = append(checks, d.checkMarks(now))
		}
	}
	if r.plan.Channel != "" && r.owned() > 0 && !r.listener.Up() {
		checks = append(checks, Check{Name: "listener", Note: "not listening; rows are found by polling"})
	}
	return checks
}

// checkOwnership says which part of the rows this replica relays. setup is why the table has not been found.
func (r *Relay) checkOwnership(setup error, states []owner.State) Check {
	c := Check{Name: "ownership"}
	if setup != nil {
		c.Note = "decided when the table is found"
		return c
	}
	var notes, unserved []string
	for _, s := range states {
		switch since := s.Unserved; {
		case !s.Watched:
			note, err := r.ownershipOf(s)
			c.Err = cmp.Or(c.Err, err)
			notes = append(notes, note)
		case !since.IsZero():
			unserved = append(unserved, fmt.Sprintf("no replica relays %s: rows wait for it since %s",
				s.Name, since.UTC().Format(time.RFC3339)))
		}
	}
	if len(slices.Compact(slices.Clone(notes))) > 1 {
		for i := range notes {
			notes[i] = states[i].Name + ": " + notes[i]
		}
	}
	c.Note = strings.Join(append(slices.Compact(notes), unserved...), "; ")
	return c
}

// ownershipOf says which part of a group's rows this replica relays. Shards that it is to release count as held: it
// relays their rows on the wire to the end.
func (r *Relay) ownershipOf(state owner.State) (note string, err error) {
	held := state.Owned.Len() + state.Leaving.Len()
	switch {
	case state.Err != nil:
		return "", state.Err
	case state.Unable && r.optional(state.Column):
		return fmt.Sprintf("best effort: this replica cannot publish and another one can, so it takes no shards; "+
			"shards still held: %d", held), nil
	case state.Unable:
		return "", fmt.Errorf("this replica cannot publish to %s and another one can, so it takes no shards; "+
			"shards still held: %d", state.Name, held)
	case state.Note != "":
		return "standing by: " + state.Note, nil
	case !state.Holds():
		return fmt.Sprintf("standing by: other replicas relay; replicas: %d", state.Replicas), nil
	default:
		return fmt.Sprintf("relays %d of %d shards; replicas: %d", held, r.config.Shards, state.Replicas), nil
	}
}

// checkUsable says whether rows can be published to the destination. Neither a standby nor a paused destination needs
// that.
func (d *Destination) checkUsable(standby bool) Check {
	c := Check{Name: "destination " + d.Name, Err: d.unusable(), Note: d.snapshot().Note}
	excuse := ""
	switch {
	case d.paused.Load():
		excuse, c.Note = "paused, and it could not be used: ", "paused"
	case standby:
		excuse = "not needed while standing by: "
	case d.Optional:
		excuse = "best effort, and it cannot be used: "
	}
	if c.Err != nil && excuse != "" {
		c.Note, c.Err = excuse+c.Err.Error(), nil
	}
	return c
}

// checkMarks says that rows of the destination cannot be written.
func (d *Destination) checkMarks(now engine.Snapshot) Check {
	note := fmt.Sprintf("rows of %s that cannot be marked or refused now: %d", d.Name, now.Held[engine.CauseMark])
	if now.Why != nil {
		note += "; " + now.Why.Error()
	}
	if now.Full && !d.Optional {
		err := fmt.Errorf("no more rows are read, since these leave no room for others: %s", note)
		return Check{Name: "marks", Err: err}
	}
	return Check{Name: "marks", Note: note}
}

// errNotFound replaces the table's state while the database does not say whether the table exists.
var errNotFound = errors.New("not looked up yet: the database cannot be reached")

// databaseTrouble returns why the database cannot be used, or nil if it can.
func (r *Relay) databaseTrouble() error {
	return cmp.Or(r.databaseDown(), r.database.state())
}

// databaseDown returns why the last contact with the database failed, for any of those who use it: the opening of the
// table, the owner of shards with its control connection, or the reads and writes.
func (r *Relay) databaseDown() error {
	_, setup := r.state()
	errs := []error{setup, r.database.state()}
	if states, _ := r.owner.States(); setup == nil { // otherwise nothing is owned, and this is why the last term ended
		for _, s := range states {
			errs = append(errs, s.Err)
		}
	}
	if i := slices.IndexFunc(errs, unreached); i >= 0 {
		return errs[i]
	}
	return nil
}

// unreached reports whether an error says that the database was not reached, or not yet.
func unreached(err error) bool {
	return errors.Is(err, errStarting) || outbox.Unreachable(err) && !owner.Answered(err)
}
