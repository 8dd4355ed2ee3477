package relay

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// A privilege that is lost while the relay runs is named with its remedy, and no row is lost.
func TestLostRight(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"select", "update"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			s, b := pgtest.New(t), publishertest.NewBroker()
			s.Exec(t, pgtest.ShapeA)
			role := s.NewRole(t)
			s.Exec(t, "grant usage on schema "+s.Name+" to "+role)
			s.Exec(t, "grant select, update on outbox_messages to "+role)
			pool := s.PoolAs(t, role)
			r := replica(t, s, b, func(c *tested) { c.Pool = pool })
			start(t, r)
			s.Exec(t, pgtest.Insert, "t", `{"n": 1}`)
			b.Await(t, 1)
			eventually(t, "ready", func() bool { return notReady(r) == "" })
			s.Exec(t, "revoke "+right+" on outbox_messages from "+role)
			s.Exec(t, pgtest.Insert, "t", `{"n": 2}`)
			eventually(t, "not ready, with the remedy", func() bool {
				return strings.Contains(notReady(r), "outbox-relay grants --role "+role)
			})
			s.Exec(t, "grant "+right+" on outbox_messages to "+role)
			eventually(t, "both rows are relayed", func() bool {
				return pgtest.Value[bool](t, s, "select count(relayed_at) = 2 from outbox_messages")
			})
			eventually(t, "ready again", func() bool { return notReady(r) == "" })
		})
	}
}

// A table that can be opened, but whose every read reports that it has changed, is opened again with pauses.
func TestTableThatCannotBeReadIsNotOpenedOverAndOver(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, `create type odd as (n int);
		create function odd_text(odd) returns text language plpgsql immutable as $$ begin raise exception using errcode =
		'undefined_function'; end $$;
		create cast (odd as text) with function odd_text(odd);
		create table outbox_messages (id int primary key, topic text, payload text, key odd, relayed_at timestamptz);
		insert into outbox_messages values (1, 't', '', row (1))`)
	var log opens
	began := time.Now()
	stop := start(t, replica(t, s, b, func(c *tested) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }))
	eventually(t, "opened five times", func() bool { return log.count() >= 5 })
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("opened %d times in %v", log.count(), took)
	}
	stop()
}

// opens counts in a log how often the table was opened.
type opens struct {
	mu sync.Mutex
	n  int
}

func (o *opens) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if bytes.Contains(line, []byte("found the outbox")) {
		o.n++
	}
	return len(line), nil
}

func (o *opens) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}

// While transactions are read-only, as a managed service may set them when storage runs out, nothing is published that
// could not be marked.
func TestReadOnlyDatabaseIsNoticedBeforePublishing(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, pgtest.ShapeA)
	role := s.NewRole(t)
	s.Exec(t, "grant usage on schema "+s.Name+" to "+role)
	s.Exec(t, "grant select, update on outbox_messages to "+role)
	pool := s.PoolWith(t, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["role"] = role
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	})
	s.Exec(t, pgtest.Insert, "t", `{"n": 1}`)
	for range 3 { // restarts
		r := replica(t, s, b, func(c *tested) { c.Pool = pool })
		stop := start(t, r)
		eventually(t, "not ready, with the remedy", func() bool {
			return strings.Contains(notReady(r), "default_transaction_read_only")
		})
		stop()
	}
	if n := len(b.All()); n != 0 {
		t.Errorf("%d rows were published", n)
	}
}
