package relay

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// withheld replaces what names a host, a role or an object of a broker.
const withheld = "withheld; ask on the same host or with credentials"

// Report returns what the table and this process know of each configured destination, in the order of the
// configuration: the JSON object that GET /status answers and `outbox-relay status --json` prints. However many ask,
// the database is asked at most once a second, and Report takes about two seconds at most. The object's problems say
// what is missing and why. Without details the report names no host, no role and no object of a broker.
func (r *Relay) Report(ctx context.Context, details bool) json.RawMessage {
	shown := func(text string) string {
		if details || text == "" {
			return text
		}
		return withheld
	}
	report, err := r.measureTable(ctx)
	if err != nil {
		report.Note("the database could not be asked: " + shown(errtext.Line(err)))
	}
	p := &operate.Process{Ready: true, Shards: r.owned()}
	for _, check := range r.Ready() {
		line := operate.Check{Name: check.Name, OK: check.Err == nil, Text: shown(check.Note)}
		if check.Err != nil {
			p.Ready, line.Text = false, shown(errtext.Line(check.Err))
		}
		p.Checks = append(p.Checks, line)
	}
	for i, d := range r.config.Destinations {
		known := d.report(details, shown)
		report.Destinations[i].AddProcess(known)
		p.InFlight += known.InFlight
	}
	report.Process = p
	text, _ := json.Marshal(report) // numbers, texts and times can always be written
	return text
}

// report returns what this process knows of a destination.
func (d *Destination) report(details bool, shown func(string) string) *operate.DestinationProcess {
	s := d.snapshot()
	p := &operate.DestinationProcess{
		Up: true, Paused: d.paused.Load(), InFlight: int64(s.InFlight), BlockedKeys: int64(s.Blocked),
		Holds: []operate.Hold{}, Reasons: []operate.ReasonRows{},
	}
	if err := d.unusable(); err != nil {
		p.Up, p.Reason = false, shown(errtext.Line(err))
	}
	for _, c := range engine.Causes {
		if s.Held[c] > 0 {
			p.Reasons = append(p.Reasons, operate.ReasonRows{Reason: c, Rows: s.Held[c]})
		}
	}
	for _, h := range s.Holds {
		if h.Error = shown(h.Error); !details {
			h.What, _, _ = strings.Cut(h.What, " ") // the kind without the name
		}
		p.Holds = append(p.Holds, h)
	}
	p.Relayed, p.History = d.measured.History.Read(time.Now())
	return p
}

// measureTable returns what the table knows of each destination, and of the rows that no destination takes. The error
// says why the database did not answer; the report then holds what is known all the same.
func (r *Relay) measureTable(ctx context.Context) (operate.Report, error) {
	report := operate.Report{At: time.Now().UTC(), Table: r.config.Table, Problems: []string{}}
	for _, d := range r.config.Destinations {
		report.Destinations = append(report.Destinations, operate.NewDestination(d.Name, d.Optional))
	}
	table, _ := r.state()
	if table == nil {
		report.Note("the table cannot be looked at yet: the checks say why")
		return report, nil
	}
	o := &operate.Outbox{Pool: r.pool, Shards: r.config.Shards}
	for _, v := range r.plan.Views {
		if view, err := table.For(v); err == nil {
			o.Views = append(o.Views, view)
		} else {
			report.Note("the rows of destination " + v.Name + " were not counted: its check says why")
		}
	}
	err := r.counter.Report(ctx, table, o, &report)
	return report, err
}
