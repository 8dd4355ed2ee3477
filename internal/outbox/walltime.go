package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// wallTime examines whether the times of insert look like local ones: a row that one of the last transactions has
// written seems to be some half hours old, and hardly anything more or less.
func (e *examination) wallTime(ctx context.Context, conn *pgx.Conn) error {
	m := e.mapping
	if !m.Inserted.Has() || m.Inserted.OID != pgtype.TimestampOID || !m.pendingIndex {
		return nil
	}
	var seconds int64
	err := conn.QueryRow(ctx, e.description.text("doctor_walltime.sql"), pgx.QueryExecModeExec).Scan(&seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look at the time of insert: %w", err)
	}
	e.add("inserted_at", finding.WarnIf(true, fmt.Sprintf("the last row was written a moment ago, and its %s says %v: it "+
		"looks like local time, and a time without a zone is taken for UTC. Latencies and ages are wrong, and rows "+
		"may expire at once",
		m.Inserted.Plain, time.Duration(seconds)*time.Second),
		"make the column timestamptz, or let the application and the default "+
			"write UTC: (now() at time zone 'utc')"))
	return nil
}
