package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// table examines the outbox and its pending rows.
func (d *Doctor) table(ctx context.Context, r *Report) (*outbox.Table, []outbox.Row) {
	table, found, err := outbox.Examine(ctx, d.Pool, d.Outbox)
	r.add(areaTable, "", found...)
	if err != nil {
		r.add(areaTable, "", unanswered("table", "", err))
	}
	if table == nil {
		return nil, nil
	}
	rows, pending := d.pending(ctx, table)
	r.add(areaTable, "", pending...)
	return table, rows
}

// firstPage bounds the pending rows that are examined of each view of the table.
var firstPage = outbox.Most{Rows: 5000, Bytes: 16 << 20, First: math.MaxInt64}

// pending reads the first pending rows as a relay does, and examines their times.
func (d *Doctor) pending(ctx context.Context, table *outbox.Table) (rows []outbox.Row, f finding.List) {
	var failed error
	var ahead time.Duration
	cheap := true // an index makes it cheap to look at the rows
	for _, seen := range d.views(table) {
		if !seen.PendingIndexed() {
			cheap = false
			continue
		}
		for _, due := range []bool{false, true} {
			if due && !seen.ReadsDue() {
				continue
			}
			page, err := seen.Tail(ctx, outbox.Query{Due: due, Most: firstPage})
			failed, rows = errors.Join(failed, err), append(rows, page.Rows...)
			for _, row := range page.Rows {
				if at := row.Message.Inserted; !at.IsZero() {
					ahead = max(ahead, at.Sub(page.Visible.Now))
				}
			}
		}
	}
	if failed != nil {
		f = append(f, unanswered("topics", "", failed))
	} else {
		f.Add("topics", table.Name(),
			finding.WarnIf(!cheap, "no index makes it cheap to look which topics are pending, so it is not known "+
				"whether the brokers have them", "make the index of pending rows"),
			finding.OKIf(len(rows) == 0, "nothing is pending, so the brokers' topics were not looked at"))
	}
	f.Add("inserted_at", table.Name(), finding.WarnIf(ahead >= time.Minute, // the usual difference of clocks is less
		fmt.Sprintf("rows have a time of insert that is up to %v ahead, so latencies are wrong: a time without a "+
			"zone is taken for UTC", ahead.Round(time.Second)),
		"make the column timestamptz, or write UTC: its default (now() at time zone 'utc'); compare the hosts' clocks"))
	return rows, f
}

// views returns the table once for all destinations that use its columns, and once for each destination that has its
// own. Problems of the latter were reported before.
func (d *Doctor) views(table *outbox.Table) (views []*outbox.Table) {
	for _, v := range d.Outbox.Views {
		seen, err := table, error(nil)
		if v.Columns != nil {
			seen, err = table.For(v)
		}
		if err == nil && !slices.Contains(views, seen) {
			views = append(views, seen)
		}
	}
	if len(views) == 0 {
		views = append(views, table)
	}
	return views
}

// replicas examines which replicas relay at present: the destinations that are configured, and others whose state the
// table keeps.
func (d *Doctor) replicas(ctx context.Context, conn *pgx.Conn, opened *outbox.Table) (f finding.List) {
	owned, err := operate.OwnershipOf(ctx, conn, opened, d.Outbox.Shards)
	if err != nil {
		return finding.List{unanswered(checkReplicas, "", err)}
	}
	for _, g := range owned.Groups {
		subject := opened.Name()
		if s := g.Stranger; s != nil {
			f.Add(checkReplicas, subject,
				finding.OKIf(!g.Unserved(), fmt.Sprintf("destination %s, which is not configured here, is "+
					"relayed by others: %d", s, len(g.Replicas))),
				finding.WarnIf(true, fmt.Sprintf("no replica relays destination %s, whose state the table keeps "+
					"in %s: rows wait for it, and prune deletes none", s, strings.Join(s.Columns, ", ")),
					"run a relay with this destination, or drop these columns if it is gone for good"))
			continue
		}
		if len(opened.Groups()) > 1 {
			subject += ", " + strings.Join(g.Names, ", ")
		}
		d.replicasOf(&f, g, subject)
	}
	return f
}

const checkReplicas = "replicas"

// replicasOf examines the replicas that relay a group of destinations.
func (d *Doctor) replicasOf(f *finding.List, g operate.Group, subject string) {
	unlike, owned := 0, 0
	for _, r := range g.Replicas {
		owned += r.Shards
		if !r.Like(d.Outbox.Shards, g.Mapping) {
			unlike++
		}
	}
	shards := d.Outbox.Names.Of("Shards")
	f.Add(checkReplicas, subject,
		finding.OKIf(g.Unserved(), "no replica runs at present"),
		finding.WarnIf(unlike > 0, fmt.Sprintf("of %d, %d have another %s than %d, or find key, id, order, priority "+
			"or destination of rows otherwise: a replica with these settings waits until they are gone",
			len(g.Replicas), unlike, shards, d.Outbox.Shards),
			"give all replicas of these destinations the same "+shards+", "+d.Outbox.Names.Of("Key")+" and "+
				d.Outbox.Names.Of("Columns")+", and all destinations that have the same columns, with the same names "+
				"and topics"),
		finding.OKIf(true, fmt.Sprintf("%d with %s=%d; shards that are owned: %d", len(g.Replicas), shards,
			d.Outbox.Shards, owned)))
}
