package relay

import (
	"context"
	"errors"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// followLimit bounds a look at the catalogue.
const followLimit = 5 * time.Second

// errOutdated is the cause of a context that ends because the table is not what it was when it was opened.
var errOutdated = errors.New("the table has changed")

// follow looks at the catalogue now and then, and calls outdated when the table is not what it was: a column that came later has
// a meaning, for instance. Statements go on to work then, but replicas that start now understand the table in another way, and stand by
// until all others do too. So it looks at once when such replicas come or go, and at the beginning of each term.
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
		// Of an error the statements will tell, if they meet it too: a look must not end what works.
		if err == nil && !current {
			r.config.Logger.Info("the table's columns or indexes have changed; it is opened anew", "table", table.Name())
			outdated()
			return
		}
	}
}
