package relay

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// debtor is a publisher that still waits for some answers.
type debtor struct {
	publisher.Publisher
	owed int
}

func (d *debtor) Unanswered() int { return d.owed }

// A stop that has to leave rows unsettled reports how many, once: the rows that were sent without an answer, and the
// rows that the database did not mark. A clean stop reports nothing.
func TestUncleanStopIsCounted(t *testing.T) {
	t.Parallel()
	const rows = 300
	for name, test := range map[string]struct {
		meanwhile func(*testing.T, *pgtest.Schema, *publishertest.Broker) // while the broker has the rows
		left      int
		owed      int
	}{
		"answers owed": {func(t *testing.T, _ *pgtest.Schema, b *publishertest.Broker) {
			b.Release()
			b.Await(t, rows)
		}, 7, 7},
		"clean": {func(t *testing.T, _ *pgtest.Schema, b *publishertest.Broker) {
			b.Release()
			b.Await(t, rows)
		}, 0, 0},
		"broker silent":               {func(*testing.T, *pgtest.Schema, *publishertest.Broker) {}, rows, 0},
		"broker silent, answers owed": {func(*testing.T, *pgtest.Schema, *publishertest.Broker) {}, rows, rows},
		"table locked": {func(t *testing.T, s *pgtest.Schema, b *publishertest.Broker) {
			tx, err := s.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			if _, err := tx.Exec(t.Context(), "lock table outbox_messages in share mode"); err != nil {
				t.Fatal(err)
			}
			b.Release()
			b.Await(t, rows)
		}, rows, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := pgtest.New(t), publishertest.NewBroker()
			s.Exec(t, pgtest.ShapeA)
			s.Exec(t,
				`insert into outbox_messages (topic, payload, inserted_at, updated_at) select 't', '{}', now(), now() from
					generate_series(1, $1)`,
				rows)
			b.Hold()
			var log logtest.Log
			r := replica(t, s, b, func(c *tested) {
				c.Destinations[0].Publisher = &debtor{b.Publisher(), test.owed}
				c.BatchSize, c.MaxInFlight = rows, 3*rows // one batch, of three eighths of the rows in flight at most
				c.StopTimeout, c.Logger = time.Second, slog.New(slog.NewTextHandler(&log, nil))
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx) }()
			b.AwaitHeld(t, 2)
			test.meanwhile(t, s, b)
			cancel()
			err := <-ended
			left := 0
			if e, ok := errors.AsType[*LeftError](err); ok {
				left = int(e.Rows)
			}
			if said := strings.Count(log.String(), "stopped before everything was settled"); (left == 0) != (test.left == 0) ||
				left > test.left ||
				said != min(1, test.left) {
				t.Errorf("%d rows were left, want %d; logged %d times: %v", left, test.left, said, err)
			}
			if strings.Contains(log.String(), "error=<nil>") {
				t.Errorf("logged without a reason:\n%s", log.String())
			}
		})
	}
}

// The same, if the table goes while the broker has the rows: they are not marked, and nothing relays when the stop
// comes.
func TestUncleanStopWithoutATable(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, pgtest.ShapeA)
	s.Exec(t, pgtest.Insert, "t", "1")
	b.Hold()
	r := replica(t, s, b, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	b.AwaitHeld(t, 1)
	s.Exec(t, "alter table outbox_messages rename to other")
	b.Release()
	b.Await(t, 1)
	eventually(t, "the table is missed", func() bool {
		_, err := r.state()
		return err != nil && strings.Contains(err.Error(), "does not exist in database")
	})
	cancel()
	if e, ok := errors.AsType[*LeftError](<-ended); !ok || e.Rows != 1 {
		t.Errorf("it reports %v, and one row was not marked", e)
	}
}
