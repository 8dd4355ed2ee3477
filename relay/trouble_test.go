package relay

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// Trouble is logged once for each cause, in whatever order the causes alternate, again every five minutes, and when it
// is over. The trouble of a best-effort destination is logged, too, and that of a destination that is never reached.
func TestTroubleIsLogged(t *testing.T) {
	t.Parallel()
	for name, optional := range map[string]bool{"required": false, "best effort": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log logtest.Log
				d := &Destination{Name: "d", Topics: []string{"*"}, Optional: optional}
				r := &Relay{
					config: &Config{
						Destinations: []*Destination{d}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
					},
					database: &database{}, owner: owner.New(),
				}
				ctx, cancel := context.WithCancel(t.Context())
				go r.watch(ctx)
				after := func(wait time.Duration, begun, over int) {
					t.Helper()
					time.Sleep(wait)
					text := log.String()
					if got := strings.Count(text, `"in trouble" part="destination d"`); got != begun {
						t.Errorf("logged %d times, want %d:\n%s", got, begun, text)
					}
					if got := strings.Count(text, `"out of trouble" part="destination d"`); got != over {
						t.Errorf("its end is logged %d times, want %d:\n%s", got, over, text)
					}
				}
				at := func(cause string) {
					err := publisher.UnavailableError(publisher.ScopeDestination, cause, "dial %v: %s", time.Now(), cause)
					d.pinged.Store(&err)
				}
				after(10*time.Second, 0, 0) // nothing is known yet
				for range 10 {
					at("no connection")
					time.Sleep(5 * time.Second)
					at("login refused")
					time.Sleep(5 * time.Second)
				}
				after(time.Second, 2, 0)
				after(5*time.Minute, 3, 0)
				d.paused.Store(true)
				d.pinged.Store(new(error))
				after(5*time.Second, 3, 1)
				d.state.Store(&engine.Snapshot{Down: errors.New("full")})
				after(5*time.Second, 4, 1)
				cancel()
				synctest.Wait()
			})
		})
	}
}
