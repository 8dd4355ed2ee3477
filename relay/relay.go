package relay

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// Relay relays the rows of one outbox, or stands by while another replica does.
type Relay struct {
	config   *Config // with its defaults
	metrics  *measure.Metrics
	database *database
	pool     *pgxpool.Pool // for reading and settling
	plan     outbox.Config // how the table is understood
	owner    *owner.Owner
	listener *outbox.Listener
	rings    chan struct{} // rings to pass on; has room for the one that waits
	counter  operate.Counter
	looks    time.Duration // longest time between two looks at the catalogue

	mu    sync.Mutex    // guards what follows
	table *outbox.Table // nil until it is found
	setup error         // why table is nil
}

// New makes a Relay without reaching the database or a broker. The Relay reads and marks rows through the pool and
// needs three of its connections for each destination, and one more. The error names every field that cannot be used,
// each as a [*FieldError].
func New(pool *pgxpool.Pool, c Config) (*Relay, error) {
	if pool == nil {
		return nil, errors.New("relay: the pool is nil; make one with pgxpool.New or Config.NewPool")
	}
	plan, routes, found := c.plan()
	for i, d := range c.Destinations {
		if d != nil && d.Publisher == nil {
			found.add(i, "Publisher", "is nil: give one of kafka.New, nats.New, amqp.New or your own")
		}
	}
	if len(found) > 0 {
		return nil, found.err()
	}
	metrics, err := newMetrics(c.Meter, c.Destinations)
	if err != nil {
		return nil, err
	}
	for i, d := range c.Destinations {
		d.route = *routes[i]
		d.profile, _ = profile.New(d.WireFormat, publisher.ProtocolOf(d.Publisher), // plan knows the format
			profile.Options{Source: d.CloudEventsSource, Tombstones: d.DebeziumTombstones})
	}
	if c.connect == nil {
		c.witness = &owner.Witness{}
		c.connect = connector(cmp.Or(c.Direct, pool.Config()), 2*c.patience(), c.witness)
	}
	r := &Relay{
		config: &c, metrics: metrics, database: &database{silent: c.silent}, pool: pool,
		plan: plan, setup: errUnknown, looks: time.Minute, rings: make(chan struct{}, 1),
	}
	if c.Delete { // rows would be lost to a destination whose columns are added
		r.looks = 3 * time.Second
	}
	r.owner = owner.New()
	r.owner.Connect, r.owner.Witness = c.connect, cmp.Or(c.witness, &owner.Witness{})
	r.owner.Shards, r.owner.TTL = c.Shards, c.OwnerTTL
	r.owner.Channel, r.owner.Logger, r.owner.Names = plan.Channel, c.Logger, c.SettingName
	r.owner.Silent = c.silent
	r.listener = &outbox.Listener{
		Connect: c.connect, Channel: plan.Channel, Logger: c.Logger, Wake: r.notified, Pulse: c.OwnerTTL / 2,
	}
	if err := r.gauges(c.Meter); err != nil {
		return nil, err
	}
	r.lookAtPauses()
	return r, nil
}

// Close closes the publishers of all destinations. Call it after Run has returned.
func (r *Relay) Close() error {
	var errs []error
	for _, d := range r.config.Destinations {
		errs = append(errs, d.Publisher.Close())
	}
	return errors.Join(errs...)
}

// Run relays until ctx ends, then stops cleanly: it starts nothing new, waits until what is on the wire is answered and
// settled, and releases the outbox. Trouble with the database or a broker never ends it. The error is an
// [*LeftError] if the stop was not clean.
func (r *Relay) Run(ctx context.Context) error {
	left := 0
	var group sync.WaitGroup
	for _, d := range r.config.Destinations {
		group.Go(func() { r.probe(ctx, d) })
	}
	group.Go(func() { every(ctx, pauseEvery, func(time.Time) { r.lookAtPauses() }) })
	group.Go(func() { r.watch(ctx) })
	group.Go(func() { r.passRings(ctx) })
	for failures := 0; ctx.Err() == nil; failures++ {
		table, err := outbox.Open(ctx, r.pool, r.plan)
		if err == nil {
			r.found(table, nil)
			left, err = r.term(ctx, table)
		}
		if ctx.Err() != nil {
			break // an error only says that the stop has interrupted something
		}
		if err != nil {
			r.found(nil, err)
		}
		if err == nil { // after a lost connection, the owner has paused already
			failures = 0
		}
		select { // also if the table could be opened: the statements may still be unable to use it
		case <-ctx.Done():
		case <-time.After(2 * retry.Pause(failures)):
		}
	}
	group.Wait()
	if left > 0 {
		return &LeftError{int64(left), "published, or may have been, and not settled: they will be published again"}
	}
	return nil
}

// found records the table, or why it cannot be used.
func (r *Relay) found(table *outbox.Table, err error) {
	r.mu.Lock()
	r.table, r.setup = table, err
	r.mu.Unlock()
	if err != nil {
		return
	}
	r.config.Logger.Info("found the outbox", "table", table.Name(), "columns", table.Describe())
	for _, lack := range table.Lacks() {
		r.config.Logger.Warn("missing index or column", "subject", lack.Subject, "what", lack.Found,
			"remedy", lack.Remedy)
	}
	r.database.read(nil)
}

// state returns the table, or nil and the reason if it has not been found.
func (r *Relay) state() (*outbox.Table, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.table, r.setup
}
