package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/outbox-relay/outbox-relay/test/demo/broker"
	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
	"github.com/outbox-relay/outbox-relay/test/demo/shop"
)

const (
	cleanTime = 15 * time.Second // time for cleaning up
	lookBack  = 2 * time.Second  // period of the latencies in the view
)

// A demo is the state of one run.
type demo struct {
	options
	url      string // URL of the database
	dir      string // folder of temporary files
	view     *view
	database *database
	broker   broker.Broker
	ledger   *ledger.Ledger
	shop     *shop.Shop

	mu     sync.Mutex
	relays []*relay // relays that were started; only story adds to them

	left []error // errors of the cleanup
}

// clean runs one part of the cleanup, which continues after ctx has ended.
func (d *demo) clean(ctx context.Context, part func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	if err := part(ctx); err != nil {
		d.left = append(d.left, err)
	}
}

// play runs the demo and reports whether exactly the committed rows arrived. It cleans up in every case.
func (d *demo) play(ctx context.Context, getenv func(string) string, stdout io.Writer) (right bool, err error) {
	if d.dir, err = os.MkdirTemp(getenv("TMPDIR"), "outbox-relay-demo-"); err != nil {
		return false, fmt.Errorf("make temporary directory: %w", err)
	}
	defer func() {
		interrupted := ctx.Err() != nil
		d.clean(ctx, func(context.Context) error { return d.removeFiles(right || interrupted) })
	}()

	id := strings.ToLower(rand.Text()[:8])
	schema, topic := "demo_"+id, "demo-orders-"+id
	outbox, err := printSchema(ctx, d.options.relay, map[string]string{"OUTBOX_TABLE": schema + "." + outboxTable})
	if err != nil {
		return false, err
	}
	if d.database, err = openDatabase(ctx, d.url, schema, outbox, d.workers+1); err != nil {
		return false, err
	}
	defer d.clean(ctx, d.database.close)
	d.shop = &shop.Shop{Pool: d.database.pool, Topic: topic, Workers: d.workers, Rate: d.rate, Ledger: d.ledger}
	if err := d.shop.Open(ctx); err != nil {
		return false, err
	}
	if d.broker, err = broker.Open(ctx, d.options.broker, broker.Topic{Name: topic}, filepath.Join(d.dir, "nats"),
		getenv); err != nil {
		return false, err
	}
	defer d.clean(ctx, d.broker.Close)
	d.view = newView(stdout, "PostgreSQL → outbox-relay → "+d.broker.Name(), d.duration)
	defer d.clean(ctx, d.closeRelays)
	if err := d.act(ctx); err != nil {
		return false, err
	}
	return d.judge(ctx)
}

func (d *demo) closeRelays(ctx context.Context) error {
	for _, r := range d.relays {
		r.close(ctx)
	}
	return nil
}

// removeFiles removes the temporary files, but keeps the relays' logs when they may be needed.
func (d *demo) removeFiles(all bool) error {
	if all || len(d.relays) == 0 {
		return os.RemoveAll(d.dir)
	}
	d.view.say("The relays' logs are kept: %s", filepath.Join(d.dir, "relay-*.log"))
	return os.RemoveAll(filepath.Join(d.dir, "nats"))
}

// act runs all parts together until the last message has arrived.
func (d *demo) act(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	watching, over := context.WithCancel(ctx)
	group.Go(func() error { return d.broker.Consume(ctx, d.ledger.Arrived) })
	group.Go(func() error { d.watch(watching); return nil })
	group.Go(func() error {
		defer over()
		return d.story(ctx, group)
	})
	return group.Wait()
}

// story runs the events one after the other. Relays are watched in the group: one that ends by itself ends the demo.
func (d *demo) story(ctx context.Context, group *errgroup.Group) error {
	d.view.say("%s: %d transactions a second from %d workers, for %s.", d.view.title, d.rate, d.workers, d.duration)
	first, err := d.start(ctx, group, d.settings())
	if err != nil {
		return err
	}
	d.view.event("%s is ready; the application begins to take orders", first.name)

	taking, cancel := context.WithTimeout(ctx, d.duration)
	defer cancel()
	acts, actsCtx := errgroup.WithContext(taking)
	acts.Go(func() error { return d.shop.Run(actsCtx) })
	var second *relay
	acts.Go(func() (err error) {
		select {
		case <-time.After(d.duration / 2):
			second, err = d.replace(ctx, group, first)
		case <-actsCtx.Done():
			err = actsCtx.Err()
		}
		return err
	})
	if err := acts.Wait(); err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}

	d.view.event("the application has stopped; waiting for its last messages")
	if err := settle(ctx, d.ledger, d.patience); err != nil {
		return err
	}
	// A relay that has stopped publishes nothing more, so nothing can arrive after the mark.
	if err := second.stop(ctx); err != nil {
		return err
	}
	return d.broker.End(ctx)
}

// settings returns the settings of a relay.
func (d *demo) settings() map[string]string {
	return map[string]string{
		"OUTBOX_DATABASE_URL": d.url, "OUTBOX_TABLE": d.database.schema + "." + outboxTable,
		"OUTBOX_PUBLISH_URL": d.broker.URL(),
	}
}

// start starts one more relay and waits until it is ready.
func (d *demo) start(ctx context.Context, group *errgroup.Group, settings map[string]string) (*relay, error) {
	name := fmt.Sprintf("relay %d", len(d.relays)+1)
	r := &relay{
		name: name, binary: d.options.relay, log: filepath.Join(d.dir, strings.ReplaceAll(name, " ", "-")+".log"),
		settings: list(settings),
	}
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.relays = append(d.relays, r)
	d.mu.Unlock()
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	group.Go(func() error { return r.watch(ctx) })
	return r, nil
}

// replace performs a rolling update: a second relay starts, and when it is ready the first is asked to stop.
func (d *demo) replace(ctx context.Context, group *errgroup.Group, first *relay) (*relay, error) {
	d.view.event("a rolling restart: relay 2 starts beside %s", first.name)
	second, err := d.start(ctx, group, d.settings())
	if err != nil {
		return nil, err
	}
	d.view.event("%s is ready and stands by; %s gets SIGTERM", second.name, first.name)
	asked := time.Now()
	if err := first.stop(ctx); err != nil {
		return nil, err
	}
	d.view.event("%s finished what was on the wire and exited after %s; %s takes over", first.name,
		short(time.Since(asked)), second.name)
	return second, nil
}

// settle waits until everything that was committed has arrived, or nothing arrives any more.
func settle(ctx context.Context, l *ledger.Ledger, patience time.Duration) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last, since := l.Counts(), time.Now()
	for last.Outstanding > 0 && time.Since(since) < patience {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if now := l.Counts(); now != last {
			last, since = now, time.Now()
		}
	}
	return nil
}

// watch shows the state until ctx ends.
func (d *demo) watch(ctx context.Context) {
	tick := time.NewTicker(d.view.interval())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s := d.look(ctx); ctx.Err() == nil { // otherwise the look was cut short
				d.view.show(s)
			}
		}
	}
}

func (d *demo) look(ctx context.Context) scene {
	d.mu.Lock()
	relays := append([]*relay(nil), d.relays...)
	d.mu.Unlock()
	s := scene{latency: d.ledger.Latency(time.Now().Add(-lookBack))}
	for _, r := range relays {
		s.relays = append(s.relays, r.look(ctx))
	}
	if inTable, unmarked, err := d.database.rows(ctx); err == nil {
		s.relayed = inTable - unmarked
	}
	s.Counts = d.ledger.Counts()
	return s
}
