package relay

import (
	"cmp"
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

	excused error // why it would not be ready if that mattered
}

// stuckAfter is how long the relay's loop may stand still before it counts as dead.
const stuckAfter = 30 * time.Second

// errUnknown stands for the state of what nothing is known of yet.
var errUnknown = errors.New("not known yet")

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

// Ready returns whether the relay could relay now, check by check. A standby needs only the database to be ready: it is
// ready while it stands by, since a rolling update would never finish otherwise. It reads what others have recorded,
// asks neither the database nor a broker, and does not block.
func (r *Relay) Ready() []Check {
	_, setup := r.state()
	states, _ := r.owner.States()
	ownership := r.checkOwnership(setup, states)
	if outbox.Unreachable(setup) {
		setup = errUnknown
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
	return checks
}

// checkOwnership says which part of the rows this replica relays. setup is why the table has not been found.
func (r *Relay) checkOwnership(setup error, states []owner.State) Check {
	c := Check{Name: "ownership"}
	if setup != nil {
		c.Note = "decided when the table is found"
		return c
	}
	var notes []string
	for _, s := range states {
		if s.Watched && s.Unserved.IsZero() { // another deployment relays it
			continue
		}
		note, err := r.ownershipOf(s)
		if c.Err = cmp.Or(c.Err, err); len(states) > 1 {
			note = s.Name + ": " + note
		}
		notes = append(notes, note)
	}
	c.Note = strings.Join(notes, "; ")
	return c
}

// ownershipOf says which part of a group's rows this replica relays. Shards that it is to release count as held: it
// relays their rows on the wire to the end.
func (r *Relay) ownershipOf(state owner.State) (note string, err error) {
	held := state.Owned.Len() + state.Leaving.Len()
	switch {
	case state.Watched:
		return fmt.Sprintf("no replica relays %s: rows wait for it since %s",
			state.Name, state.Unserved.UTC().Format(time.RFC3339)), nil
	case state.Err != nil:
		return "", state.Err
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
		excuse, c.Note = "paused", "paused"
	case standby:
		excuse = "standing by"
	case d.Optional:
		excuse = "best effort"
	}
	if c.Err != nil && excuse != "" {
		c.Note, c.Err, c.excused = excuse+", and it cannot be used: "+c.Err.Error(), nil, c.Err
	}
	return c
}

// checkMarks says that rows of the destination cannot be written. That is no reason not to be ready as long as others
// are read.
func (d *Destination) checkMarks(now engine.Snapshot) Check {
	note := fmt.Sprintf("rows of %s that cannot be marked or refused now: %d; %v",
		d.Name, now.Held[engine.CauseMark], now.Why)
	if now.Full && !d.Optional {
		err := fmt.Errorf("no more rows are read, since these leave no room for others: %s", note)
		return Check{Name: "marks", Err: err}
	}
	return Check{Name: "marks", Note: note}
}

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
	return errors.Is(err, errUnknown) || outbox.Unreachable(err) && !owner.Answered(err)
}
