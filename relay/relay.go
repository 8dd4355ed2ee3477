package relay

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
	"github.com/outbox-relay/outbox-relay/relay/internal/settle"
)

// settings hold everything that a Relay is built from.
type settings struct {
	Pool         *pgxpool.Pool                            // for reading and settling
	Links        *outbox.Links                            // the pool's connections; may be nil
	Connect      func(context.Context) (*pgx.Conn, error) // makes direct connections, for ownership and LISTEN
	Witness      *owner.Witness                           // what the pool checks its connections with; nil for a single host
	Outbox       outbox.Config                            // without its Shards and Views, which build fills in
	Destinations []*Destination                           // among those with the same columns, the first that takes a topic has the row
	Limits       dispatch.Limits
	PollInterval time.Duration
	// IdlePause is used instead of PollInterval, if it is longer, by an owner that found nothing for ten seconds and whose
	// doorbell works.
	IdlePause     time.Duration
	ListenChannel string // empty: no LISTEN
	OwnerTTL      time.Duration
	Shards        int           // number of units of ownership, the same in every replica
	StopTimeout   time.Duration // bound on a clean stop
	Meter         metric.Meter
	Tracer        trace.Tracer
	Logger        *slog.Logger
}

// workers is the number of batches on the wire to one destination at a time, each with keys of its own. Two hide the
// time that an answer takes. With four, batches were half the size, which cost Kafka 1.7 times the processor time per
// row and was no faster with any of the brokers (bench/).
const workers = 2

// Relay relays the rows of one outbox, or stands by while another replica does.
type Relay struct {
	config   settings
	owner    *owner.Owner
	listener *outbox.Listener
	bell     *bell
	metrics  *measure.Metrics
	database *database
	probes   []*probe
	wakes    chan string
	measured tableGauges
	beats    []*atomic.Int64   // when each destination's engine last showed that it turns
	active   atomic.Bool       // the engine runs and updates the beats itself
	lacks    []finding.Finding // missing parts of the table, as last logged; only Run touches it
	looks    time.Duration     // longest time between two looks at the catalogue

	mu    sync.Mutex
	table *outbox.Table // nil until it is found
	setup error         // why table is nil
}

// build makes a Relay without reaching the database or a broker.
func (c settings) build() (*Relay, error) {
	c.Destinations = withNowhere(c.Destinations)
	c.Outbox.Shards, c.Outbox.Channel = c.Shards, c.ListenChannel
	c.Limits.Patience = owner.Patience * c.OwnerTTL
	c.Outbox.Views = viewsOf(c.Destinations)
	m, err := newMetrics(c.Meter, c.Destinations)
	if err != nil {
		return nil, err
	}
	r := &Relay{
		config: c, metrics: m, database: &database{logger: c.Logger}, wakes: make(chan string, 1),
		setup: errStarting, looks: time.Minute,
	}
	for _, d := range c.Destinations {
		beat := new(atomic.Int64)
		beat.Store(time.Now().UnixNano())
		r.beats = append(r.beats, beat)
		if d.Name != nowhereName {
			r.probes = append(r.probes, &probe{destination: d, logger: c.Logger, changed: r.lookAtOwnership, err: errNotProbed})
		}
	}
	r.owner = &owner.Owner{
		Connect: c.Connect, Unable: r.unable, Witness: c.Witness, Shards: c.Shards, TTL: c.OwnerTTL, Channel: c.ListenChannel,
		Logger: c.Logger,
		Names:  c.Outbox.Names,
	}
	r.listener = &outbox.Listener{
		Connect: c.Connect, Channel: c.ListenChannel, Logger: c.Logger, Names: c.Outbox.Names,
		Wake: r.notified, Pulse: c.OwnerTTL / 2,
	}
	if c.Links != nil {
		r.owner.Silent = c.Links.Reset
	}
	r.bell = newBell(c.Logger, func(ctx context.Context) error { return outbox.Notify(ctx, c.Pool, c.ListenChannel) })
	if err := r.gauges(c.Meter); err != nil {
		return nil, err
	}
	r.lookAtPauses()
	return r, nil
}

// Ring wakes the relay: there may be new rows. If other replicas own shards, the ring is passed on to them. Ring never
// blocks.
func (r *Relay) Ring() {
	r.wake(measure.SourceDoorbell)
	if state, _ := r.owner.State(); state.Owned.Len() < r.config.Shards && r.config.ListenChannel != "" {
		r.bell.ring()
	}
}

// notified is called for each notification, and when a notification may have been missed.
func (r *Relay) notified(payload string) {
	switch payload {
	case owner.Given:
		r.owner.Look()
	case outbox.Missed:
		r.wake(measure.SourceNone)
	default:
		r.wake(measure.SourceListen)
	}
}

func (r *Relay) wake(source string) {
	select {
	case r.wakes <- source:
	default: // the loop is about to look anyway
	}
}

// Run relays until ctx ends, then stops cleanly: it starts nothing new, waits until what is on the wire is answered and
// settled, and releases the outbox. Trouble with the database or a broker never ends it. The error is an
// [*UnsettledError] if the stop was not clean.
func (r *Relay) Run(ctx context.Context) error {
	left := 0
	var group sync.WaitGroup
	for _, p := range r.probes {
		group.Go(func() { p.run(ctx) })
	}
	group.Go(func() { r.tick(ctx) })
	group.Go(func() { r.followPauses(ctx) })
	group.Go(func() { r.bell.run(ctx) })
	group.Go(func() { r.remind(ctx) })
	if r.config.Links != nil {
		group.Go(func() { r.config.Links.Run(ctx) })
	}
	for failures := 0; ctx.Err() == nil; {
		table, err := outbox.Open(ctx, r.config.Pool, r.config.Outbox)
		if err != nil && ctx.Err() != nil {
			break // the stop has interrupted it
		}
		r.found(table, err)
		if err == nil {
			began := time.Now()
			left = r.relay(ctx, table)
			if time.Since(began) > wellAfter {
				failures = 0
			}
		}
		select { // also if the table could be opened: the statements may still be unable to use it
		case <-ctx.Done():
		case <-time.After(2 * retry.Pause(failures)):
		}
		failures++
	}
	group.Wait()
	if left > 0 {
		return &UnsettledError{Rows: left}
	}
	return nil
}

// An UnsettledError reports that a stop left rows that were published, or may have been, and could not be settled. They
// will be published again with the same ids.
type UnsettledError struct{ Rows int }

func (e *UnsettledError) Error() string {
	return fmt.Sprintf("stopped before everything was settled; rows that will be published again: %d", e.Rows)
}

// wellAfter is how long a table must have been usable for the next trouble to count as a new one.
const wellAfter = 10 * time.Second

// found records the table, or why it cannot be used.
func (r *Relay) found(table *outbox.Table, err error) {
	r.mu.Lock()
	before := r.setup
	r.table, r.setup = table, err
	r.mu.Unlock()
	switch {
	case err == nil:
		r.config.Logger.Info("found the outbox", append([]any{"table", table.Name()}, table.Describe()...)...)
		r.logLacks(table.Lacks())
		r.database.read(nil)
	case before == nil || errtext.Line(before) != errtext.Line(err):
		r.config.Logger.Warn("the outbox cannot be used yet", "error", err)
	}
}

// logLacks logs once what the table lacks.
func (r *Relay) logLacks(lacks []finding.Finding) {
	if slices.Equal(lacks, r.lacks) {
		return
	}
	r.lacks = lacks
	for _, lack := range lacks {
		r.config.Logger.Warn("the outbox lacks something", "what", lack.Found, "remedy", lack.Remedy)
	}
}

// state returns the table, or nil and the reason if it has not been found.
func (r *Relay) state() (*outbox.Table, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.table, r.setup
}

// relay takes part in the ownership of the outbox until ctx ends or the table has changed. It returns the number of
// rows that were left unsettled when ctx ended.
func (r *Relay) relay(ctx context.Context, table *outbox.Table) int {
	r.owner.Table, r.owner.Mapping, r.listener.Table = table.Name(), table.Mapping(), table.Quoted()
	// The outbox is released only after the engine has stopped.
	owning, leave := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); r.owner.Run(owning) }()
	defer func() { leave(); <-done }()
	ctx, outdated := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer outdated(nil)
	group.Go(func() { r.follow(ctx, table, func() { outdated(errOutdated) }) })
	for ctx.Err() == nil {
		state, changed := r.owner.State()
		if !state.Holds() {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		left, err := r.term(ctx, table, state.Term)
		switch {
		case ctx.Err() != nil:
			return left
		case err != nil:
			r.found(nil, err)
			return 0
		}
	}
	return 0
}

// term runs the engine for as long as this replica is the owner.
func (r *Relay) term(ctx context.Context, table *outbox.Table, term uint64) (left int, err error) {
	ctx, end := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer end(nil)
	group.Go(func() {
		for {
			state, changed := r.owner.State()
			if !state.Holds() || state.Term != term {
				end(errTermOver)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	})
	if r.config.ListenChannel != "" {
		group.Go(func() { r.listener.Run(ctx) })
	}
	r.active.Store(true)
	defer r.active.Store(false)
	views := map[*Destination]Table{}
	e := engines{
		view: func(d *Destination) Table { return views[d] }, together: settle.Together,
		limits: r.config.Limits, interval: r.config.PollInterval, idlePause: r.config.IdlePause, workers: workers,
		ownership: r.owner, shards: r.config.Shards, wakes: r.wakes,
		logger: r.config.Logger, metrics: r.metrics, tracer: r.config.Tracer, database: r.database, doorbell: r.listener,
		stopTime: r.config.StopTimeout,
	}
	var idle []int
	for i, d := range r.config.Destinations {
		view, failure := table.For(r.config.Outbox.Views[i])
		if failure != nil { // the other destinations need not wait for this one's columns
			d.state.Store(&dispatch.Snapshot{Down: failure})
			err = cmp.Or(err, failure)
			idle = append(idle, i)
			continue
		}
		views[d], e.destinations, e.beats = view, append(e.destinations, d), append(e.beats, r.beats[i])
	}
	if len(e.destinations) == 0 {
		return 0, err
	}
	group.Go(func() { r.idle(ctx, idle) })
	return e.run(ctx)
}

// idle keeps the beats of destinations without an engine up to date.
func (r *Relay) idle(ctx context.Context, destinations []int) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for len(destinations) > 0 {
		for _, i := range destinations {
			r.beat(i)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (r *Relay) beat(destination int) { r.beats[destination].Store(time.Now().UnixNano()) }

// tick keeps all beats up to date while no engine runs.
func (r *Relay) tick(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if !r.active.Load() {
			for i := range r.beats {
				r.beat(i)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
