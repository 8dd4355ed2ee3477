package outbox

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// doorbell is what the catalogue says about the doorbell's trigger.
type doorbell struct {
	found    bool
	enabled  bool // the trigger fires in ordinary sessions, and perhaps in replicating ones
	rings    bool // fires for each statement that inserts
	prepares bool // transactions of this server may be prepared, so that the trigger does not ring
	channel  string
}

func (r *relation) readDoorbell(ctx context.Context, conn *pgx.Conn) error {
	d := doorbell{found: true}
	err := conn.QueryRow(ctx, sql.Text("catalogue_doorbell.sql", map[string]string{"class": sql.DoorbellClass}),
		pgx.QueryExecModeExec, r.oid).
		Scan(&d.channel, &d.enabled, &d.rings, &d.prepares)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	} else if err != nil {
		return err
	}
	r.doorbell = d
	return nil
}

// on reports whether each insert into the table notifies the channel.
func (d doorbell) on(channel string) bool {
	return d.found && d.enabled && d.rings && !d.prepares && channel != "" && d.channel == channel
}
