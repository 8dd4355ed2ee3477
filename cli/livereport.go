package cli

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// liveReport makes the report of /status: the state of the table, and what this process knows.
type liveReport struct {
	assembly *assembly
	started  time.Time
}

// withheld replaces what only authenticated callers may know.
const withheld = "withheld; ask on the same host or with credentials"

// report returns the report now. Without details it names neither hosts nor roles.
func (l *liveReport) report(ctx context.Context, details bool) operate.Report {
	text, err := l.assembly.Report(ctx)
	var r operate.Report
	err = errors.Join(err, json.Unmarshal(text, &r))
	if err != nil {
		why := errtext.Line(err)
		if !details {
			why = withheld
		}
		r.Note("the database could not be asked: " + why)
	}
	l.addProcess(&r, details)
	return r
}

// addProcess adds what this process knows. What names a host, a role or an object of the broker is in details only: the page
// is served to whoever reaches the port, unless OUTBOX_HTTP_CONFIG asks for a password.
func (l *liveReport) addProcess(r *operate.Report, details bool) {
	build := thisBuild()
	p := &operate.Process{
		Version: build.Version, Commit: build.Commit, StartedAt: l.started.UTC(), Ready: true, Shards: l.assembly.Owned(),
	}
	r.Process = p
	for _, check := range checks(l.assembly) {
		line := operate.Check{Name: check.Name, OK: check.Err == nil, Text: check.Note}
		if check.Err != nil {
			p.Ready, line.Text = false, check.Err.Error()
		}
		if !details && line.Text != "" {
			line.Text = withheld
		}
		p.Checks = append(p.Checks, line)
	}
	for i, state := range l.assembly.States() { // in the order of the configuration, like the report's destinations
		d := &r.Destinations[i]
		d.Held = new(int64)
		to := &operate.DestinationProcess{
			Up: state.Up, Paused: state.Paused, Reason: state.Reason, InFlight: int64(state.InFlight),
			BlockedKeys: int64(state.Blocked), Relayed: state.Relayed,
			Holds: []operate.Hold{}, History: []operate.Interval{}, Reasons: []operate.ReasonRows{},
		}
		d.Process = to
		p.InFlight += to.InFlight
		if !details && to.Reason != "" {
			to.Reason = withheld
		}
		for _, held := range state.Held {
			*d.Held += held.Rows
			to.Reasons = append(to.Reasons, operate.ReasonRows(held))
		}
		holdPaused(d)
		for _, h := range state.Holds {
			hold := operate.Hold{
				Reason: h.Reason, What: h.What, Topics: append([]string{}, h.Topics...), Error: h.Answer, Since: h.Since.UTC(),
			}
			if !details {
				hold.What, hold.Error = h.Kind, withheld
			}
			to.Holds = append(to.Holds, hold)
		}
		for _, i := range state.History {
			to.History = append(to.History, operate.Interval{
				From: i.From, Seconds: i.Length.Seconds(), Relayed: i.Relayed, Failed: i.Failed,
				LatencyP50: seconds(i.P50), LatencyP99: seconds(i.P99),
			})
		}
	}
}

// holdPaused counts the due rows of a paused destination as held: each waits for the pause, including rows that also
// wait for something else. If nobody has counted the due rows, it is not known how many are held.
func holdPaused(d *operate.Destination) {
	p := d.Process
	if p == nil || !p.Paused {
		return
	}
	counted := slices.ContainsFunc(p.Reasons, func(r operate.ReasonRows) bool { return r.Reason == "paused" })
	if d.Due == nil {
		if !counted {
			d.Held = nil
		}
		return
	}
	if !counted {
		p.Reasons = append(p.Reasons, operate.ReasonRows{Reason: "paused", Rows: *d.Due})
	}
	held := *d.Due
	if d.Held != nil {
		held = max(held, *d.Held)
	}
	d.Held = &held
}

func seconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(d.Seconds())
}
