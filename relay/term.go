package relay

import (
	"cmp"
	"context"
	"sync"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/settle"
)

// workers is the number of batches on the wire to one destination at a time, each with keys of its own. Two hide the
// time that an answer takes. With four, batches were half the size, which cost Kafka 1.7 times the processor time per
// row and was no faster with any of the brokers (bench/).
const workers = 2

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
	if r.plan.Channel != "" {
		group.Go(func() { r.listener.Run(ctx) })
	}
	e := engines{
		process: r.process, views: map[*Destination]Table{}, together: settle.Together, limits: r.config.limits(), workers: workers,
		ownership: r.owner, doorbell: r.listener,
	}
	for i, d := range r.config.Destinations {
		view, failure := table.For(r.plan.Views[i])
		if failure != nil { // the other destinations need not wait for this one's columns
			d.state.Store(&dispatch.Snapshot{Down: failure})
			err = cmp.Or(err, failure)
			continue
		}
		e.views[d] = view
	}
	if len(e.views) == 0 {
		return 0, err
	}
	return e.run(ctx)
}
