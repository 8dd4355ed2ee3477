package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// table examines the outbox and its pending rows.
func (d *Doctor) table(ctx context.Context, r *Report) (*outbox.Table, []outbox.Sample) {
	table, found, err := outbox.Examine(ctx, d.Pool, d.Outbox, d.Channel)
	r.add(areaTable, "", found...)
	if err != nil {
		r.add(areaTable, "", unreadable("table", err))
	}
	if table == nil {
		return nil, nil
	}
	views := d.views(table)
	for _, v := range views {
		r.add(areaTable, v.name, backlog(ctx, v.table)...)
	}
	rows, cheap, err := samples(ctx, views)
	switch {
	case err != nil:
		r.add(areaTable, "", unreadable("topics", err))
	case !cheap:
		r.add(areaTable, "", warning("topics", table.Name(), "make the index of pending rows",
			"which topics are pending was not looked at, because no index makes that cheap: whether the brokers have them is not known"))
	case len(rows) == 0:
		r.add(areaTable, "", ok("topics", table.Name(), "nothing is pending, so the brokers' topics were not looked at"))
	}
	r.add(areaTable, "", future(table.Name(), rows, time.Now())...)
	return table, rows
}

// view is the table as it is seen by the destinations that keep their state in the same columns.
type view struct {
	name  string // name of the destination, empty for the columns of the table
	table *outbox.Table
}

// views returns the table once for all destinations that use its columns, and once for each destination that has its own.
// Problems of the latter were reported before.
func (d *Doctor) views(table *outbox.Table) []view {
	var views []view
	for _, v := range d.Outbox.Views {
		if v.Columns == nil {
			return append([]view{{"", table}}, d.own(table)...)
		}
	}
	if views = d.own(table); len(views) == 0 {
		views = []view{{"", table}}
	}
	return views
}

func (d *Doctor) own(table *outbox.Table) (views []view) {
	for _, v := range d.Outbox.Views {
		if v.Columns == nil {
			continue
		}
		if seen, err := table.For(v); err == nil {
			views = append(views, view{v.Name, seen})
		}
	}
	return views
}

// samples returns the samples of all views. cheap is false if no index makes one of them cheap.
func samples(ctx context.Context, views []view) (rows []outbox.Sample, cheap bool, err error) {
	cheap = true
	for _, v := range views {
		some, ok, failure := v.table.SampleTopics(ctx)
		rows, cheap, err = append(rows, some...), cheap && ok, errors.Join(err, failure)
	}
	return rows, cheap, err
}

// future looks for rows whose time of insert lies in the future.
func future(table string, rows []outbox.Sample, now time.Time) []finding.Finding {
	const apart = time.Minute // the usual difference of clocks
	var ahead time.Duration
	for i := range rows {
		ahead = max(ahead, rows[i].Newest.Sub(now))
	}
	if ahead < apart {
		return nil
	}
	return []finding.Finding{warning("inserted_at", table, "make the column timestamptz, or its default (now() at time zone 'utc'); compare "+
		"the clocks of this host and the database",
		"rows have a time of insert that is still to come, by up to %v: latencies are measured wrongly. A time without a zone is "+
			"taken for UTC", ahead.Round(time.Second))}
}

// unreadable is the finding for a question that the database did not answer.
func unreadable(check string, err error) finding.Finding {
	if setup, ok := errors.AsType[*outbox.SetupError](err); ok {
		return failure(check, "", setup.Remedy, "%s", setup.Problem)
	}
	return failure(check, "", "look at the server's log for the same message", "%s", errtext.Line(err))
}

// backlog examines the rows that wait and those that have failed.
func backlog(ctx context.Context, table *outbox.Table) []finding.Finding {
	const check = "backlog"
	c, err := table.Count(ctx)
	if err != nil {
		return []finding.Finding{unreadable(check, err)}
	}
	var found []finding.Finding
	if c.Pending != nil {
		text := "pending rows: " + capped(*c.Pending)
		var age time.Duration
		if c.Oldest != nil && *c.Pending > 0 {
			age = time.Duration(*c.Oldest * float64(time.Second)).Round(time.Second)
			text += fmt.Sprintf(", the first of them for %v", age)
		}
		const late = 5 * time.Minute
		if age > late {
			found = append(found, warning(check, table.Name(), "see whether a replica relays (replicas, below), whether the broker takes "+
				"messages, and in the relay's log what it holds", "%s", text))
		} else {
			found = append(found, ok(check, table.Name(), "%s", text))
		}
	}
	if c.Failed != nil && *c.Failed > 0 {
		found = append(found, warning("failed", table.Name(), "read last_error of the rows with failed_at; when the cause is gone, let them be "+
			"tried again", "failed rows: %s", capped(*c.Failed)))
	} else if c.Failed != nil {
		found = append(found, ok("failed", table.Name(), "no row has failed"))
	}
	return found
}

func capped(n int64) string {
	if n >= outbox.CountCap {
		return fmt.Sprintf("more than %d", outbox.CountCap-1)
	}
	return fmt.Sprint(n)
}

// replicas examines which replicas relay at present.
func (d *Doctor) replicas(ctx context.Context, conn *pgx.Conn, opened *outbox.Table) []finding.Finding {
	const check = "replicas"
	table := opened.Name()
	peers, err := owner.Look(ctx, conn, table, d.Shards, opened.Mapping())
	if err != nil {
		return []finding.Finding{unreadable(check, err)}
	}
	if len(peers.Replicas) == 0 {
		return []finding.Finding{ok(check, table, "no replica runs at present")}
	}
	var counts []int
	for shards := range peers.Replicas {
		counts = append(counts, shards)
	}
	slices.Sort(counts)
	var parts []string
	foreign := false
	for _, shards := range counts {
		parts = append(parts, fmt.Sprintf("%d with %s=%d", peers.Replicas[shards], d.Names.Of("Shards"), shards))
		foreign = foreign || shards != d.Shards
	}
	text := fmt.Sprintf("%s; shards that are owned: %d", strings.Join(parts, ", "), peers.Owned)
	if foreign {
		return []finding.Finding{warning(check, table, "give all replicas the same "+d.Names.Of("Shards"),
			"%s; with %d, as set here, a replica waits until those with another number are gone", text, d.Shards)}
	}
	if peers.Different > 0 {
		return []finding.Finding{warning(check, table, "give all replicas the same version, "+d.Names.Of("Key")+" and "+d.Names.Of("Columns"),
			"%s; of these, %d take the key, the id, the order or the priority of rows from elsewhere than is set here, or are of an earlier "+
				"version: a replica with these settings waits until they are gone", text, peers.Different)}
	}
	return []finding.Finding{ok(check, table, "%s", text)}
}
