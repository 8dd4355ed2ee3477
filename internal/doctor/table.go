package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

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
	var ahead, local time.Duration
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
			early, late := misdated(&page)
			ahead = max(ahead, early)
			// Without the inserting transaction, a row that another destination has marked seems to be written just
			// now.
			if seen.Inserted.OID == pgtype.TimestampOID && (seen == table || seen.Exact()) {
				local = max(local, late)
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
	const remedy = "make the column timestamptz, or write UTC: its default (now() at time zone 'utc')"
	f.Add("inserted_at", table.Name(),
		finding.WarnIf(ahead >= time.Minute, // the usual difference of clocks is less
			fmt.Sprintf("rows have a time of insert that is up to %v ahead, so latencies are wrong: a time without a "+
				"zone is taken for UTC", ahead.Round(time.Second)), remedy+"; compare the hosts' clocks"),
		finding.WarnIf(local > 0, fmt.Sprintf("a row was written a moment ago, and its %s says %v: it looks like "+
			"local time, and is taken for UTC. Latencies and ages are wrong, and rows may expire at once",
			table.Inserted.Plain, local), remedy))
	return rows, f
}

// misdated returns by how much a time of insert lies in the future, at most, and the age by its time of insert of the
// row that was written last, if one of the last transactions has written it and the age looks like a zone's difference:
// whole half hours up to 14. Rows that were written before it may have any age.
func misdated(page *outbox.Page) (ahead, local time.Duration) {
	const recent, zones, exactly = 1000, 30 * time.Minute, 30 * time.Second
	var writer uint64
	for i := range page.Rows {
		row := &page.Rows[i]
		if row.Message.Inserted.IsZero() {
			continue
		}
		age := page.Visible.Now.Sub(row.Message.Inserted)
		ahead = max(ahead, -age)
		if row.Retried || row.Writer < writer || page.Visible.Unassigned-row.Writer > recent {
			continue
		}
		writer, local = row.Writer, age.Round(zones)
		if local <= 0 || local > 14*time.Hour || (age-local).Abs() > exactly {
			local = 0
		}
	}
	return ahead, local
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
					"run a relay with this destination; or, if it is gone for good: "+s.Drop))
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
	number, foreign, different, owned := d.Outbox.Shards, 0, 0, 0
	for _, r := range g.Replicas {
		owned += r.Shards
		if r.Of != d.Outbox.Shards {
			number, foreign = r.Of, foreign+1
		} else if !r.Like(d.Outbox.Shards, g.Mapping) {
			different++
		}
	}
	shards := d.Outbox.Names.Of("Shards")
	same := cmp.Or(foreign, len(g.Replicas))
	text := fmt.Sprintf("%d with %s=%d; shards that are owned: %d", same, shards, number, owned)
	f.Add(checkReplicas, subject,
		finding.OKIf(g.Unserved(), "no replica runs at present"),
		finding.WarnIf(foreign > 0, fmt.Sprintf("%s; with %d, as set here, a replica waits until those with another "+
			"number are gone", text, d.Outbox.Shards), "give all replicas the same "+shards),
		finding.WarnIf(different > 0, fmt.Sprintf("%s; of these, %d find key, id, order, priority or destination "+
			"of rows otherwise: a replica with these settings waits until they are gone", text, different),
			"give all replicas of these destinations the same "+d.Outbox.Names.Of("Key")+" and "+
				d.Outbox.Names.Of("Columns")+", and all destinations that have the same columns, with the same names "+
				"and topics"),
		finding.OKIf(true, text))
}
