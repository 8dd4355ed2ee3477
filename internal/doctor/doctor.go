// Package doctor examines everything that relaying depends on (the database, the table, the other replicas, the
// brokers) and says in plain words what is wrong and what to do about it. It changes nothing, publishes
// nothing and owns nothing.
package doctor

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// A Doctor says what to examine. Examine neither changes nor closes anything in it.
type Doctor struct {
	Pool       *pgxpool.Pool                            // for reading and settling
	Connect    func(context.Context) (*pgx.Conn, error) // direct, for ownership and LISTEN
	Outbox     outbox.Config
	Routes     []*route.Route        // of the destinations
	Publishers []publisher.Publisher // of the same destinations
}

// Areas of the examination.
const (
	areaDatabase    = "database"
	areaTable       = "table"
	areaReplicas    = "replicas"
	areaDestination = "destination"
)

// timeout is the time limit of the database's part, and of that of all destinations. What has not ended in time is a
// finding.
const timeout = 15 * time.Second

// Examine returns all findings, in a fixed order. It takes about half a minute at most, however much is unreachable.
func (d *Doctor) Examine(ctx context.Context) Report {
	var r Report
	table, rows := d.database(ctx, &r)
	d.destinations(ctx, &r, table, rows)
	return r
}

// destinations examines all brokers at the same time, and reports the topics that no destination takes.
func (d *Doctor) destinations(ctx context.Context, r *Report, table *outbox.Table, rows []outbox.Row) {
	addresses, lost := route.Addresses(d.Routes, rows)
	found := make([]finding.List, len(d.Routes))
	var group sync.WaitGroup
	for i, p := range d.Publishers {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			if examiner, able := p.(publisher.Examiner); able { // standard output is not
				found[i] = examiner.Examine(ctx, addresses[i])
			}
		})
	}
	group.Wait()
	for i, to := range d.Routes {
		f := found[i]
		if table != nil && publisher.ProtocolOf(d.Publishers[i]) == publisher.ProtocolNATS {
			f = append(f, table.ExamineDedupIDs(to.DedupPrefix, to.Names)...)
		}
		if to.Optional {
			f = finding.AsWarnings(f)
		}
		r.add(areaDestination, to.Name, f...)
	}
	var f finding.List
	for _, topic := range lost {
		f.Warn("topic", topic, "no destination takes this topic: its rows wait", "add a pattern for it to the TOPICS "+
			"of a destination, or a destination without TOPICS, which takes every row")
	}
	r.add(areaDestination, "", f...)
}
