package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/outbox-relay/outbox-relay/test/demo/broker"
	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
	"github.com/outbox-relay/outbox-relay/test/demo/shop"
)

// mostOrder is the largest message that the orders' broker accepts, less than a large payload.
const mostOrder = shop.LargePayload / 2

// A copyOf is one destination of the scene fanout, with a state of its own.
type copyOf struct {
	name     string
	what     string // description for people
	kind     string // kind of broker
	settings map[string]string
	most     int                   // largest message in bytes that its broker accepts
	wants    func(ledger.Row) bool // nil for every row
	ordered  bool                  // the order of each key is kept
	// it is away for a time, and then rows may be delivered twice, within the guarantee's bound
	repeats bool

	broker broker.Broker
	ledger *ledger.Ledger
}

// mostRepeated is OUTBOX_MAX_IN_FLIGHT, the number of rows that a lost connection may repeat.
const mostRepeated = 4096

// stateColumns returns the columns of a destination's own: all of them, or relayed_at alone.
func stateColumns(name string, names ...string) string {
	var pairs []string
	for _, column := range names {
		pairs = append(pairs, column+":"+name+"_"+column)
	}
	return strings.Join(pairs, ",")
}

// copies returns the destinations of the scene. With all brokers, orders go to Kafka and the audit copy goes to
// RabbitMQ. Otherwise NATS takes everything.
func copies(brokers string) []*copyOf {
	kafka, rabbit := "nats", "nats"
	if brokers == allBrokers {
		kafka, rabbit = "kafka", "rabbitmq"
	}
	return []*copyOf{
		{name: "orders", what: "orders", kind: kafka, most: mostOrder, ordered: true, wants: func(r ledger.Row) bool {
			return !r.Large
		}},
		{
			name: "audit", what: "audit copy", kind: rabbit, ordered: true, repeats: true,
			settings: map[string]string{"COLUMNS": stateColumns("audit", "relayed_at", "attempt", "failed_at",
				"last_error",
				"updated_at")},
		},
		{
			name: "notice", what: "notices of orders relayed", kind: "nats",
			wants:    func(r ledger.Row) bool { return !r.Large },
			settings: map[string]string{"COLUMNS": stateColumns("notice", "relayed_at"), "RELAYED_OF": "orders"},
		},
		{
			name: "dead", what: "dead letters of orders", kind: "nats",
			wants:    func(r ledger.Row) bool { return r.Large },
			settings: map[string]string{"COLUMNS": stateColumns("dead", "relayed_at"), "FAILED_OF": "orders"},
		},
	}
}

// ledgers records transactions for each destination separately.
type ledgers []*copyOf

func (l ledgers) Committing(rows []ledger.Row) {
	for _, c := range l {
		c.ledger.Committing(rows)
	}
}

func (l ledgers) Committed(rows []ledger.Row) {
	for _, c := range l {
		c.ledger.Committed(rows)
	}
}

func (l ledgers) RolledBack(rows []ledger.Row) {
	for _, c := range l {
		c.ledger.RolledBack(rows)
	}
}

// A fanout is the scene in which each row has several destinations.
type fanout struct {
	*demo
	copies []*copyOf
	gate   *gate // placed in front of the broker of the audit copy
}

// playFanout runs the scene fanout, as play does for the other scene.
func (d *demo) playFanout(ctx context.Context, getenv func(string) string, stdout io.Writer) (right bool, err error) {
	f := &fanout{demo: d, copies: copies(d.options.broker)}
	if d.dir, err = os.MkdirTemp(getenv("TMPDIR"), "outbox-relay-demo-"); err != nil {
		return false, fmt.Errorf("make temporary directory: %w", err)
	}
	defer func() {
		interrupted := ctx.Err() != nil
		d.clean(ctx, func(context.Context) error { return d.removeFiles(right || interrupted) })
	}()
	id := strings.ToLower(rand.Text()[:8])
	schema, topic := "demo_"+id, "demo-orders-"+id
	settings := map[string]string{
		"OUTBOX_DATABASE_URL": d.url, "OUTBOX_TABLE": schema + "." + outboxTable,
		"OUTBOX_DESTINATIONS": "orders,audit,notice,dead",
	}
	d.view = newView(stdout, "PostgreSQL → outbox-relay → four destinations", d.duration)
	for _, c := range f.copies {
		own := "OUTBOX_DESTINATION_" + strings.ToUpper(c.name) + "_"
		c.ledger = ledger.New()
		c.ledger.Wants, c.ledger.Keyless, c.ledger.Dead = c.wants, !c.ordered, c.settings["FAILED_OF"] != ""
		c.broker, err = broker.Open(ctx, c.kind, broker.Topic{Name: topic + "-" + c.name, Most: c.most},
			filepath.Join(d.dir, "nats", c.name),
			getenv)
		if err != nil {
			return false, err
		}
		defer d.clean(ctx, c.broker.Close)
		address := c.broker.URL()
		if c.repeats {
			if f.gate, address, err = openGate(ctx, address); err != nil {
				return false, err
			}
			defer f.gate.close()
		}
		settings[own+"PUBLISH_URL"], settings[own+"TOPIC"] = address, "{topic}-"+c.name
		for name, value := range c.settings {
			settings[own+name] = value
		}
	}
	outbox, err := f.schema(ctx, settings)
	if err != nil {
		return false, err
	}
	if d.database, err = openDatabase(ctx, d.url, schema, outbox, d.workers+1); err != nil {
		return false, err
	}
	defer d.clean(ctx, d.database.close)
	d.shop = &shop.Shop{
		Pool: d.database.pool, Topic: topic, Workers: d.workers, Rate: d.rate, Ledger: ledgers(f.copies),
		Large: d.large,
	}
	if err := d.shop.Open(ctx); err != nil {
		return false, err
	}
	defer d.clean(ctx, d.closeRelays)
	if err := f.act(ctx, settings); err != nil {
		return false, err
	}
	return f.judge(ctx)
}

// schema returns the DDL of the table with the columns of all destinations.
func (f *fanout) schema(ctx context.Context, settings map[string]string) (string, error) {
	script, err := printSchema(ctx, f.options.relay, settings)
	for _, c := range f.copies {
		if c.settings["COLUMNS"] == "" || err != nil {
			continue
		}
		var own string
		own, err = printSchema(ctx, f.options.relay, settings, "--destination", c.name)
		script += strings.ReplaceAll(own, "concurrently ", "") // the table is new, and the script is one transaction
	}
	return script, err
}

// act runs all parts together until the last message has arrived.
func (f *fanout) act(ctx context.Context, settings map[string]string) error {
	group, ctx := errgroup.WithContext(ctx)
	watching, over := context.WithCancel(ctx)
	for _, c := range f.copies {
		group.Go(func() error { return c.broker.Consume(ctx, c.ledger.Arrived) })
	}
	group.Go(func() error { f.watch(watching); return nil })
	group.Go(func() error {
		defer over()
		return f.story(ctx, group, settings)
	})
	return group.Wait()
}

// story runs the events one after the other.
func (f *fanout) story(ctx context.Context, group *errgroup.Group, settings map[string]string) error {
	f.view.say("%s: %d transactions a second from %d workers, for %s.", f.view.title, f.rate, f.workers, f.duration)
	for _, c := range f.copies {
		f.view.say("  %-26s %s", c.what, c.broker.Name())
	}
	r, err := f.start(ctx, group, settings)
	if err != nil {
		return err
	}
	f.view.event("%s is ready; the application begins to take orders, one row in %d too large for the orders' broker",
		r.name, f.large)
	taking, cancel := context.WithTimeout(ctx, f.duration)
	defer cancel()
	acts, actsCtx := errgroup.WithContext(taking)
	acts.Go(func() error { return f.shop.Run(actsCtx) })
	acts.Go(func() error { return f.outage(ctx) })
	if err := acts.Wait(); err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	f.view.event("the application has stopped; waiting for its last messages")
	for _, c := range f.copies {
		if err := settle(ctx, c.ledger, f.patience); err != nil {
			return err
		}
	}
	if err := r.stop(ctx); err != nil {
		return err
	}
	for _, c := range f.copies {
		if err := c.broker.End(ctx); err != nil {
			return err
		}
	}
	return nil
}

// outage makes the broker of the audit copy unavailable for ten seconds in the middle, or for a third of a short play.
func (f *fanout) outage(ctx context.Context) error {
	third := f.duration / 3
	for _, shut := range []bool{true, false} {
		pause := third
		if !shut {
			pause = min(third, 10*time.Second)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		f.gate.set(shut)
		if shut {
			f.view.event("the broker of the audit copy goes away; nothing else waits for it")
		} else {
			f.view.event("the broker of the audit copy is back")
		}
	}
	return nil
}

// watch shows the state of each destination until ctx ends.
func (f *fanout) watch(ctx context.Context) {
	tick := time.NewTicker(f.view.interval())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		states, err := f.database.states(ctx, f.copies)
		if err != nil || ctx.Err() != nil { // the look was cut short
			continue
		}
		short, lines := "", []string{}
		for _, c := range f.copies {
			counts, s := c.ledger.Counts(), states[c.name]
			text := fmt.Sprintf("%d relayed, %d arrived", s.relayed, counts.Arrived)
			if s.failed > 0 {
				text += fmt.Sprintf(", %d failed", s.failed)
			}
			if counts.Outstanding > 0 {
				text += fmt.Sprintf(", %d to come", counts.Outstanding)
			}
			short += fmt.Sprintf("  %s: %s", c.name, text)
			lines = append(lines, fmt.Sprintf("  %-26s %s", c.what, text))
		}
		f.view.draw(short, lines)
	}
}

// judge compares what arrived at each destination with what was committed, prints a verdict for each and reports
// whether everything is right.
func (f *fanout) judge(ctx context.Context) (right bool, err error) {
	states, err := f.database.states(ctx, f.copies)
	if err != nil {
		return false, err
	}
	f.view.say("")
	right = true
	for _, c := range f.copies {
		wrong := f.faults(c, states[c.name])
		verdict := "RIGHT"
		if len(wrong) > 0 {
			right, verdict = false, "WRONG"
		}
		counts, state := c.ledger.Counts(), states[c.name]
		f.view.say("%s  %-26s %d rows were for it, %d relayed, %d failed, %d arrived", verdict, c.what,
			counts.Committed,
			state.relayed,
			state.failed, counts.Arrived)
		for _, text := range wrong {
			f.view.say("       %s", text)
		}
	}
	if right {
		f.view.say("\nRIGHT: each destination has what it is to have, whatever happened to the others.")
	}
	return right, nil
}

// faults describes what is wrong with a destination.
func (f *fanout) faults(c *copyOf, s state) (wrong []string) {
	found := maps.Clone(c.ledger.Check())
	if !c.ordered {
		delete(found, ledger.Reordered)
	}
	if c.repeats && len(found[ledger.Duplicate]) <= mostRepeated {
		delete(found, ledger.Duplicate)
	}
	for _, fault := range ledger.AllFaults {
		if ids := found[fault]; len(ids) > 0 {
			wrong = append(wrong,
				fmt.Sprintf("%d %s, such as %s", len(ids), fault, strings.Join(ids[:min(examples, len(ids))], ", ")))
		}
	}
	switch committed := c.ledger.Counts().Committed; {
	case committed == 0:
		wrong = append(wrong, "the application wrote nothing for it")
	case s.relayed != committed:
		wrong = append(wrong, fmt.Sprintf("%d rows are marked as relayed, not %d", s.relayed, committed))
	}
	if dead := f.copies[len(f.copies)-1].ledger.Counts().Committed; c.name == "orders" && s.failed != dead ||
		c.name != "orders" &&
			s.failed > 0 {
		wrong = append(wrong, fmt.Sprintf("%d rows have failed", s.failed))
	}
	return wrong
}
