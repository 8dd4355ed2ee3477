// Package doctor examines everything that relaying depends on (the settings, the database, the table, the
// other replicas, the brokers) and says in plain words what is wrong and what to do about it. It changes
// nothing, publishes nothing and owns nothing.
package doctor

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// A Doctor says what to examine. Nothing in it is changed or closed.
type Doctor struct {
	Pool         *pgxpool.Pool                            // for reading and settling
	Connect      func(context.Context) (*pgx.Conn, error) // direct, for ownership and LISTEN
	Outbox       outbox.Config
	Channel      string // OUTBOX_LISTEN_CHANNEL
	Shards       int
	Destinations []Destination
	Certificates *Certificates          // those that the connections show
	Settings     []finding.Finding      // about the configuration, found before
	Secure       map[string][]Transport // how the connections to each destination are protected, by its name
	Deduplicates map[string]bool        // whether a destination's broker drops messages by their ids, by its name
}

// A Destination is where rows go, and what publishes them there.
type Destination struct {
	*route.Route
	Publisher publisher.Publisher
}

// Areas of what was examined.
const (
	areaSettings    = "settings"
	areaDatabase    = "database"
	areaTable       = "table"
	areaReplicas    = "replicas"
	areaDestination = "destination"
)

// How long each part may take. A part that has not ended by then is a finding.
const (
	databaseTime    = 15 * time.Second
	destinationTime = 15 * time.Second
)

// Examine returns all findings, in a fixed order. It takes no longer than about half a minute, however
// much is away.
func (d *Doctor) Examine(ctx context.Context) Report {
	var r Report
	r.add(areaSettings, "", d.Settings...)
	if len(d.Settings) == 0 {
		r.add(areaSettings, "", ok("settings", "", "nothing in the settings contradicts itself"))
	}
	table, rows := d.database(ctx, &r)
	d.destinations(ctx, &r, table, rows)
	return r
}

// destinations examines all brokers at once, each within its time.
func (d *Doctor) destinations(ctx context.Context, r *Report, table *outbox.Table, rows []outbox.Sample) {
	routes := make([]*route.Route, len(d.Destinations))
	for i, to := range d.Destinations {
		routes[i] = to.Route
	}
	addresses, lost := route.Addresses(routes, rows)
	found := make([][]finding.Finding, len(d.Destinations))
	var group sync.WaitGroup
	for i, to := range d.Destinations {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, destinationTime)
			defer cancel()
			found[i] = examine(ctx, to.Publisher, addresses[i])
		})
	}
	group.Wait()
	for i, to := range d.Destinations {
		r.add(areaDestination, to.Name, found[i]...)
		if d.Deduplicates[to.Name] && table != nil {
			r.add(areaDestination, to.Name, messageIDs(table.IDForm(), to.DedupPrefix)...)
		}
		for _, transport := range d.Secure[to.Name] {
			r.add(areaDestination, to.Name, transport.findings()...)
		}
		r.add(areaDestination, to.Name, d.Certificates.findings(to.Name)...)
	}
	for _, topic := range lost {
		r.add(areaDestination, "", warning("topic", topic, "add a pattern for it to the TOPICS of a destination, or a destination without "+
			"TOPICS, which takes every row",
			"no destination takes this topic: its rows wait"))
	}
}

// examine asks a broker what there is to know of it.
func examine(ctx context.Context, p publisher.Publisher, addresses []publisher.Address) []finding.Finding {
	if e, can := p.(publisher.Examiner); can {
		return e.Examine(ctx, addresses)
	}
	if err := p.Ping(ctx); err != nil {
		return []finding.Finding{failure("reach", "", "correct what the message says; the URL is in OUTBOX_PUBLISH_URL", "%s", errtext.Line(err))}
	}
	return []finding.Finding{ok("reach", "", "takes messages")}
}
