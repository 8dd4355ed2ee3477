package relay

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A row whose last attempt seems to lie in the future, because the database's clock was set back or the application
// writes updated_at, waits for its backoff and not for the clock.
func TestRetriesDoNotWaitForTheClock(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, `insert into outbox_messages (topic, key, payload, attempt, last_error, updated_at)
		select 't', 'k' || n / 2, '{}', 2 - n % 2, case when n % 2 = 0 then 'x' end, now() + interval '10 minutes' from
		generate_series(1, 200) n`)
	start(t, replica(t, s, b, nil))
	b.Await(t, 200)
}
