package relay

import (
	"context"
	"errors"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// followLimit limits the duration of a look at the catalogue.
const followLimit = 5 * time.Second

// errOutdated is the cause of a context that ends because the table has changed since it was opened.
var errOutdated = errors.New("the table has changed")

// follow looks at the catalogue now and then, and calls outdated if the table has changed: a column that was added may
// have a meaning, for instance. Statements still work then, but replicas that start now understand the table in another
// way, and stand by until all other replicas understand it in that way, too. That is why follow also looks when such
// replicas come or go, and at the beginning of each term.
func (r *Relay) follow(ctx context.Context, table *outbox.Table, outdated func()) {
	seen, _ := r.owner.State()
	for {
		next := time.NewTimer(r.looks)
		for due := false; !due; {
			state, changed := r.owner.State()
			if state.Term != seen.Term || state.Others != seen.Others {
				seen = state
				break
			}
			select {
			case <-ctx.Done():
				next.Stop()
				return
			case <-changed:
			case <-next.C:
				due = true
			}
		}
		next.Stop()
		limited, cancel := context.WithTimeout(ctx, followLimit)
		current, doorbell, err := table.Current(limited)
		cancel()
		if err == nil {
			r.listener.Trust(doorbell)
		}
		// An error is not acted on. The statements will report it if they meet it, too; a look must not end what works.
		if err == nil && !current {
			r.config.Logger.Info("the table's columns or indexes have changed; it is opened again", "table", table.Name())
			outdated()
			return
		}
	}
}
