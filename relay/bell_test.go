package relay

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

func TestBellCoalesces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end, rung := make(chan struct{}), 0
		r := &Relay{
			config: &Config{}, plan: outbox.Config{Channel: "outbox"},
			owner: owner.New(), rings: make(chan struct{}, 1),
			notify: func(context.Context) error {
				rung++
				<-end
				return nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.passRings(ctx) })
		r.Ring()
		synctest.Wait()
		for range 100 {
			r.Ring()
		}
		end <- struct{}{}
		synctest.Wait()
		end <- struct{}{}
		synctest.Wait()
		cancel()
		running.Wait()
		if rung != 2 {
			t.Errorf("%d notifications for 101 rings at once, want 2", rung)
		}
	})
}

// The relay ends when it is asked to, however often the doorbell is rung and however the database responds.
func TestDoorbellDoesNotKeepTheRelayFromEnding(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeB)
	network := publishertest.NewNetwork()
	config, err := pgx.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.DialFunc = network.Dial
	r := replica(t, s, publishertest.NewBroker(), func(c *tested) {
		c.connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
		c.ListenChannel = s.Name
	})
	waiting := make(chan struct{}, 1)
	r.notify = func(ctx context.Context) error { // as the pool does while the database does not answer
		select {
		case waiting <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	}
	network.Freeze() // owns nothing, so that the relay passes each ring on
	stop := start(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			for ctx.Err() == nil {
				r.Ring()
			}
		})
	}
	<-waiting
	stop() // while the doorbell is rung, which never stops
	cancel()
	callers.Wait()
}
