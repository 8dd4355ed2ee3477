package outbox

import (
	"slices"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A row that was just written and seems to be hours old, to the minute, has a local time.
func TestWallTime(t *testing.T) {
	t.Parallel()
	for offset, warns := range map[string]bool{
		"5 hours": true, "5 hours 30 minutes": true, "0": false, "-8 hours": false, "5 hours 10 minutes": false,
		"40 hours": false,
	} {
		s := pgtest.New(t)
		s.Exec(t, pgtest.ShapeB)
		s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, updated_at) values ('t', '{}',
			(now() at time zone 'UTC') - $1::text::interval, now())`, offset)
		_, found, err := Examine(t.Context(), s.Pool, Config{Table: sql.Table{Name: "outbox_messages"}}, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(found, func(f finding.Finding) bool { return f.Check == "inserted_at" }); got != warns {
			t.Errorf("%s: %v", offset, got)
		}
	}
}
