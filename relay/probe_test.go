package relay

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// hosts is a broker of several hosts. Each ping reaches another host.
type hosts struct {
	publisher.Publisher
	pings  int
	causes []string // the error of each host, empty when the broker is back
}

func (h *hosts) Ping(context.Context) error {
	if len(h.causes) == 0 {
		return nil
	}
	host := h.pings % len(h.causes)
	h.pings++
	return publisher.UnavailableError(publisher.ScopeDestination, h.causes[host], "dial host-%d: %s", host, h.causes[host])
}

// However many hosts are away, an outage is logged with one line for each cause, and one at its end.
func TestOutageOfSeveralHostsIsLoggedOnce(t *testing.T) {
	t.Parallel()
	for lines, causes := range map[int][]string{
		1: {"no connection", "no connection", "no connection"}, 2: {"no connection", "login refused", "no connection"},
	} {
		t.Run(fmt.Sprint(lines, " causes"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log logtest.Log
				broker := &hosts{}
				d := &Destination{Name: "d", Publisher: broker}
				r := &Relay{
					config: &Config{Logger: slog.New(slog.NewTextHandler(&log, nil))},
					owner:  &owner.Owner{},
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range 2 {
					broker.causes = causes
					go r.probe(ctx, d)
					<-time.After(10 * time.Minute)
					cancel()
					synctest.Wait()
					broker.causes = nil
					ctx, cancel = context.WithCancel(t.Context())
					go r.probe(ctx, d)
					<-time.After(time.Minute)
					cancel()
					synctest.Wait()
					ctx, cancel = context.WithCancel(t.Context())
				}
				cancel()
				text := log.String()
				if logged, ended := strings.Count(text, "cannot be reached"),
					strings.Count(text, "can be reached"); logged != 2*lines || ended != 2 {
					t.Errorf("two outages are logged %d times, their ends %d times:\n%.2000s", logged, ended, text)
				}
			})
		})
	}
}
