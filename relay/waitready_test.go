package relay

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// WaitReady says what is not ready when its context ends, and why that has ended.
func TestWaitReadySaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	r, err := New(s.Pool, Config{
		Table: s.Name + ".missing", Destinations: []*Destination{{Publisher: publishertest.NewBroker().Publisher()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	giveUp := errors.New("deployment timed out")
	cancel(giveUp)
	if err := r.WaitReady(ctx); !errors.Is(err, giveUp) || !strings.Contains(err.Error(), "database: starting") {
		t.Errorf("got %v", err)
	}
}
