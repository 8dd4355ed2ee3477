package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	watchEvery = 2 * time.Second
	// Trouble that lasts is logged again, so that a log that begins in the middle of an outage shows it.
	remindEvery = 5 * time.Minute
)

// watch logs trouble of parts of the relay: when it begins, when it has another cause, as a reminder, and when it is
// over.
func (r *Relay) watch(ctx context.Context) {
	known := map[string][]string{} // causes that were logged, by part; with several hosts, they may alternate
	reminded := time.Now()
	every(ctx, watchEvery, func(now time.Time) {
		limited, cancel := context.WithTimeout(ctx, lookLimit)
		defer cancel()
		r.lookAtCommits(limited)
		trouble := r.trouble(limited)
		for part := range known {
			if trouble[part] == nil {
				delete(known, part)
				r.config.Logger.Info("out of trouble", "part", part)
			}
		}
		if now.Sub(reminded) >= remindEvery {
			clear(known)
			reminded = now
		}
		for part, err := range trouble {
			cause := errtext.Line(err)
			if answer, ok := errors.AsType[*publisher.Error](err); ok {
				cause = answer.Short // the same for every host
			}
			if !slices.Contains(known[part], cause) {
				known[part] = append(known[part], cause)
				r.config.Logger.Warn("in trouble", "part", part, "error", err)
			}
		}
	})
}

// trouble returns what keeps parts of the relay from their work, also where the relay is ready all the same.
func (r *Relay) trouble(ctx context.Context) map[string]error {
	trouble := map[string]error{}
	for _, c := range append(r.Ready(), Check{Name: "rows", Err: r.untakenRows(ctx)}) {
		if err := cmp.Or(c.Err, c.excused); err != nil && !errors.Is(err, errUnknown) {
			trouble[c.Name] = err
		}
	}
	return trouble
}

// untakenRows returns an error that reports rows which wait until a destination takes them.
func (r *Relay) untakenRows(ctx context.Context) error {
	if takeAll(r.config.Destinations) || r.owned() == 0 {
		return nil
	}
	if report, _ := r.measureTable(ctx); report.Untaken != nil && len(report.Untaken.Topics) > 0 {
		return fmt.Errorf("no destination takes rows of topic %q, and perhaps of others: outbox-relay status lists "+
			"them; add them to those of a destination", report.Untaken.Topics[0].Topic)
	}
	return nil
}

// errUnconfirmed reports that the server writes and does not confirm it.
var errUnconfirmed = errors.New("commits wait for a synchronous standby that does not answer: bring it back, or take " +
	"it out of synchronous_standby_names; what was marked meanwhile is marked, and no row is lost")

// lookAtCommits finds out, while rows are under way, whether commits wait for a synchronous standby. Statements that
// wait for one have written and do not return, so the relay would seem slow for no reason.
func (r *Relay) lookAtCommits(ctx context.Context) {
	var trouble error
	if table, _ := r.state(); table != nil && allOf(r.config.Destinations).InFlight > 0 {
		switch waits, err := table.Unconfirmed(ctx); {
		case err != nil:
			return // trouble with the database shows elsewhere
		case waits:
			trouble = errUnconfirmed
		}
	}
	r.database.wrote(confirming, trouble)
}
