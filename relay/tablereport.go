package relay

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// Report returns what the table knows of each configured destination, in the order of the configuration, as the JSON
// object that `outbox-relay status --json` prints. However many ask, the database is asked at most once a second, and
// Report takes about a second at most. The error says why the database did not answer; the report then holds what is
// known all the same.
func (r *Relay) Report(ctx context.Context) (json.RawMessage, error) {
	report, err := r.measureTable(ctx)
	all := len(configured(r.config.Destinations))
	if rest := report.Destinations[all:]; len(rest) > 0 && len(rest[0].Topics) > 0 {
		report.Untaken = &rest[0].Backlog
	}
	report.Destinations = report.Destinations[:all]
	text, failure := json.Marshal(report)
	return text, errors.Join(err, failure)
}

// measureTable is Report with one more destination for the rows that no destination takes, if there may be such rows.
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
	err := r.counter.Report(ctx, table, func() *operate.Outbox { return r.outbox(table) }, &report)
	for _, v := range r.plan.Views[:len(configured(r.config.Destinations))] {
		if _, failure := table.For(v); failure != nil {
			report.Note("the rows of destination " + v.Name + " were not counted: its check says why")
		}
	}
	return report, err
}

// outbox returns the table as the destinations see it whose columns it has.
func (r *Relay) outbox(table *outbox.Table) *operate.Outbox {
	o := &operate.Outbox{Pool: r.pool, Shards: r.config.Shards}
	for _, v := range r.plan.Views {
		if view, err := table.For(v); err == nil && !leavesRest(table, v) { // the readiness reports what is missing
			o.Views = append(o.Views, operate.ViewOf(v, view))
		}
	}
	return o
}
