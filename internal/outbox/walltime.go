package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// wallTime examines whether the times of insert look like local ones: a row that one of the last transactions has
// written seems to be some half hours old, and hardly anything more or less.
func (e *examination) wallTime(ctx context.Context) error {
	m := e.mapping
	if !m.Inserted.Has() || m.Inserted.OID != pgtype.TimestampOID || !m.pendingIndex {
		return nil
	}
	rows, err := e.query(ctx, limits{once: true}, e.description.text("doctor_walltime.sql"))
	if err != nil {
		return fmt.Errorf("look at the time of insert: %w", err)
	} else if len(rows) == 0 {
		return nil
	}
	e.add("inserted_at", finding.WarnIf(true, fmt.Sprintf("the last row was written a moment ago, and its %s says %v: it "+
		"looks like local time, and a time without a zone is taken for UTC. Latencies and ages are wrong, and rows "+
		"may expire at once",
		m.Inserted.Plain, time.Duration(ordinal(rows[0][0]))*time.Second),
		"make the column timestamptz, or let the application and the default "+
			"write UTC: (now() at time zone 'utc')"))
	return nil
}
