package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// wallTime examines whether the times of insert look like local ones: a row that one of the last transactions has
// written seems to be some half hours old, and hardly anything more or less.
func (e *examination) wallTime(ctx context.Context, conn *pgx.Conn) error {
	const (
		lately = 1000 // transactions
		zone   = 30 * time.Minute
		nearly = 30 * time.Second
		most   = 14 * time.Hour // the difference of a zone to UTC
	)
	m := e.mapping
	if !m.Inserted.Has() || m.Inserted.OID != pgtype.TimestampOID || !m.pendingIndex {
		return nil
	}
	var seconds float64
	var written int32
	err := conn.QueryRow(ctx, e.description.text("doctor_walltime.sql"), pgx.QueryExecModeExec).Scan(&seconds, &written)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look at the time of insert: %w", err)
	}
	age := time.Duration(math.Min(seconds, most.Seconds()*2) * float64(time.Second))
	rest := age - age.Round(zone)
	if written > lately || age < zone-nearly || age > most+nearly || rest.Abs() > nearly {
		return nil
	}
	e.found.Warn("inserted_at", e.subject, fmt.Sprintf("the last row was written a moment ago, and its %s says %v: it "+
		"looks like local time, and a time without a zone is taken for UTC. Latencies and ages are wrong, and rows "+
		"may expire at once",
		m.Inserted.Plain, age.Round(zone)), "make the column timestamptz, or let the application and the default "+
		"write UTC: (now() at time zone 'utc')")
	return nil
}
