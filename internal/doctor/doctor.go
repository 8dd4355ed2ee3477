// Package doctor examines everything that relaying depends on (the settings, the database, the table, the other replicas, the
// brokers) and says in plain words what is wrong and what to do about it. It changes nothing, publishes nothing and owns
// nothing.
package doctor

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// A Doctor says what to examine. Examine neither changes nor closes anything in it.
type Doctor struct {
	Pool         *pgxpool.Pool                            // for reading and settling
	Connect      func(context.Context) (*pgx.Conn, error) // direct, for ownership and LISTEN
	Outbox       outbox.Config
	Channel      string // the channel of LISTEN
	Shards       int
	Destinations []Destination
	Certificates *Certificates          // the certificates that the connections show
	Names        setting.Names          // names of the settings that belong to no destination
	Settings     []finding.Finding      // findings about the configuration, made earlier
	Secure       map[string][]Transport // how the connections to each destination are protected, by its name
	Deduplicates map[string]bool        // whether a destination's broker drops messages by their ids, by its name
}

// A Destination is where rows go, and what publishes them there.
type Destination struct {
	*route.Route
	Publisher publisher.Publisher
	Names     setting.Names
	Examine   Examination // if nil, the broker is only asked whether it answers
}

// An Examination is [publisher.Examiner] as a function.
type Examination func(ctx context.Context, addresses []publisher.Address) []finding.Finding

// Areas of the examination.
const (
	areaSettings    = "settings"
	areaDatabase    = "database"
	areaTable       = "table"
	areaReplicas    = "replicas"
	areaDestination = "destination"
)

// Time limits of the parts. A part that has not ended in time is a finding.
const (
	databaseTime    = 15 * time.Second
	destinationTime = 15 * time.Second
)

// Examine returns all findings, in a fixed order. It takes about half a minute at most, however much is unreachable.
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
			found[i] = examine(ctx, to, addresses[i])
		})
	}
	group.Wait()
	for i, to := range d.Destinations {
		f := found[i]
		if d.Deduplicates[to.Name] && table != nil {
			f = append(f, messageIDs(table.IDForm(), to.DedupPrefix, to.Names)...)
		}
		for _, transport := range d.Secure[to.Name] {
			f = append(f, transport.findings()...)
		}
		f = append(f, d.Certificates.findings(to.Name)...)
		if to.Optional {
			r.add(areaDestination, to.Name, ok("best_effort", "", "%s: readiness, drain and prune do not wait for this destination, so what is "+
				"wrong with it is a warning", to.Names.Of("Optional")))
			f = finding.AsWarnings(f)
		}
		r.add(areaDestination, to.Name, f...)
	}
	for _, topic := range lost {
		r.add(areaDestination, "", warning("topic", topic, "add a pattern for it to the TOPICS of a destination, or a destination without "+
			"TOPICS, which takes every row",
			"no destination takes this topic: its rows wait"))
	}
}

// examine examines a broker.
func examine(ctx context.Context, to Destination, addresses []publisher.Address) []finding.Finding {
	if to.Examine != nil {
		return to.Examine(ctx, addresses)
	}
	if err := to.Publisher.Ping(ctx); err != nil {
		return []finding.Finding{inspect.Unusable("", err, "correct what the message says; the URL is in "+to.Names.Of("URL"))}
	}
	return []finding.Finding{ok("reach", "", "takes messages")}
}
