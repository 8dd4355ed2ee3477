package relay

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// bell passes the doorbell on to the other replicas, since the row may be in one of their shards. However
// often it is rung, one notification is on its way at a time and at most one waits behind it.
type bell struct {
	notify func(context.Context) error
	logger *slog.Logger

	mu      sync.Mutex
	ringing bool
	again   bool
	group   sync.WaitGroup
}

const bellTimeout = 5 * time.Second

// ring passes one ring on. It does not block.
func (b *bell) ring(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ringing {
		b.again = true
		return
	}
	b.ringing = true
	b.group.Go(func() {
		for more := true; more; {
			limited, cancel := context.WithTimeout(ctx, bellTimeout)
			err := b.notify(limited)
			cancel()
			if err != nil { // the others find the row at their next poll
				b.logger.Debug("doorbell was not passed on", "error", err)
			}
			b.mu.Lock()
			more, b.again = b.again, false
			b.ringing = more
			b.mu.Unlock()
		}
	})
}
