package doctor

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

// The first pending rows show which topics there are, and how the times of insert are written. They are read only where
// an index serves that.
func TestPending(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shape, offset string
		rows          int
		warns         string // the check that warns
	}{
		"UTC":      {pgtest.ShapeB, "0", 2, ""},
		"ahead":    {pgtest.ShapeB, "-8 hours", 2, "inserted_at"},
		"no index": {pgtest.ShapeC, "0", 0, "topics"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, c.shape)
			s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, updated_at)
				select t, '{}', (now() at time zone 'UTC') - $1::text::interval, now()
				from unnest(array['a', 'b']) t`, c.offset)
			d := &Doctor{Pool: s.Pool, Outbox: outbox.Config{Table: sql.Table{Name: "outbox_messages"}}}
			table, err := outbox.Open(t.Context(), s.Pool, d.Outbox)
			if err != nil {
				t.Fatal(err)
			}
			rows, found := d.pending(t.Context(), table)
			warned := ""
			for _, f := range found {
				if f.Severity != finding.OK {
					warned += f.Check
				}
			}
			if len(rows) != c.rows || warned != c.warns {
				t.Errorf("%d rows, %+v", len(rows), found)
			}
		})
	}
}
