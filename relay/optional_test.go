package relay

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A best-effort destination that cannot be used keeps the relay neither from being ready nor from being drained, and
// its rows go when it can be used again.
func TestBestEffortDestination(t *testing.T) {
	t.Parallel()
	s, first, second := pgtest.New(t), publishertest.NewBroker(), publishertest.NewBroker()
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, "alter table outbox_messages add column notice_at timestamptz")
	with := func(c *tested) {
		c.Destinations = append(c.Destinations, &Destination{
			Name: "notice", Publisher: second.Publisher(), Columns: map[string]string{"relayed_at": "notice_at"}, Optional: true,
			PublishTimeout: 10 * time.Second, BackoffMax: 10 * time.Millisecond, BackoffMin: time.Millisecond,
		})
	}
	second.Down()
	r := replica(t, s, first, with)
	start(t, r)
	s.Exec(t, insertKeyed, 50)
	eventually(t, "the other destination has all", func() bool { return len(first.All()) == 50 && allRelayed(t, s) })
	eventually(t, "ready, with a note", func() bool {
		return notReady(r) == "" && strings.HasPrefix(noteOf(r, "destination notice"), "best effort, and it cannot be used: ")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := replica(t, s, first, with).Drain(ctx); err != nil {
		t.Errorf("drain: %v", err)
	}
	second.Up()
	eventually(t, "its rows follow", func() bool { return len(second.All()) >= 50 })
}
