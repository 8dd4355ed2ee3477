package relay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/settle"
)

// workers is the number of batches on the wire to one destination at a time, each with keys of its own. Two hide the
// time that an answer takes. With four, batches were half the size, which cost Kafka 1.7 times the processor time per
// row and was no faster with any of the brokers (bench/).
const workers = 2

// term takes part in the ownership of the outbox until shards are lost with the control connection, the table has
// changed or ctx ends. It returns the number of rows that were left unsettled. Whatever was known in an earlier term
// may be wrong: other replicas may have written in between, and after a failover the numbers of transactions may come
// again, and the table may be another one. So each term begins with a table that has just been opened and with new
// engines, which read from the very beginning.
func (r *Relay) term(ctx context.Context, table *outbox.Table) (left int, err error) {
	c, groups := r.config, r.groups(table)
	r.owner.Open(table.Name(), groups)
	r.listener.Table = table.Quoted()
	e := engines{
		config: c, metrics: r.metrics, database: r.database, together: settle.Together, doorbell: r.listener,
		limits: engine.Limits{
			Batch: c.BatchSize, Rows: c.MaxInFlight, Bytes: c.MaxInFlightBytes, Patience: owner.Patience * c.OwnerTTL,
		},
	}
	for i, d := range c.Destinations {
		view, failure := table.For(r.plan.Views[i])
		if failure != nil { // the other destinations need not wait for this one's columns
			d.state.Store(&engine.Snapshot{Down: failure})
			err = cmp.Or(err, failure)
			continue
		}
		for _, g := range groups {
			if g.Column == d.group() {
				e.all = append(e.all, &loop{engines: &e, to: d, table: view, ownership: g})
			}
		}
	}
	if len(e.all) == 0 {
		return 0, err
	}
	e.make()
	// The shards are released only after the engines have stopped. Released before, rows on the wire would be published
	// by the next owner, too.
	owning, leave := context.WithCancel(context.WithoutCancel(ctx))
	ctx, end := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	group.Go(func() { r.owner.Run(owning); end(errEnded) })
	group.Go(func() { r.follow(ctx, table); end(errEnded) })
	if r.plan.Channel != "" {
		group.Go(func() { r.listener.Run(ctx) })
	}
	left, err = e.run(ctx)
	leave()
	end(nil)
	group.Wait()
	return left, err
}

// errEnded is the cause of a context that ends although the process goes on: the table has changed since it was opened,
// or shards were lost.
var errEnded = errors.New("the table or the ownership has changed")

// follow counts the shards that are acquired, forgets what is known of the database while none are held, and returns
// when the table has changed or ctx ends. It also looks at the table when the ownership changes, as it does when
// replicas come that understand it in another way: they stand by until this one understands it in that way, too.
func (r *Relay) follow(ctx context.Context, table *outbox.Table) {
	owned := map[string]owner.Set{}
	for ctx.Err() == nil {
		states, changed := r.owner.States()
		if !slices.ContainsFunc(states, owner.State.Holds) {
			r.database.stopped()
		}
		for _, s := range states {
			r.metrics.TookOver(s.Owned.Without(owned[s.Column]).Len())
			owned[s.Column] = s.Owned
		}
		if r.outdated(ctx, table) {
			return
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(r.looks):
		}
	}
}

// lookLimit limits the duration of a look at the catalogue. Nothing waits for a look but the next one.
const lookLimit = 5 * time.Second

// outdated looks at the catalogue, and reports whether the table has changed since it was opened: a column that was
// added may have a meaning, for instance.
func (r *Relay) outdated(ctx context.Context, table *outbox.Table) bool {
	limited, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	current, doorbell, err := table.Current(limited)
	if err != nil { // the statements will report it if they meet it, too; a look must not end what works
		return false
	}
	r.listener.Trigger.Store(doorbell)
	if !current {
		r.config.Logger.Info("columns or indexes of the table have changed; reopening it", "table", table.Name())
	}
	return !current
}
