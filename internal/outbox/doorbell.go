package outbox

import (
	"bytes"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// doorbell is what the catalogue says about the doorbell's trigger.
type doorbell struct {
	found   bool
	enabled bool // also for sessions that replicate, or for all others
	rings   bool // for each statement that inserts
	channel string
}

func (r *relation) readDoorbell(ctx context.Context, conn *pgx.Conn) error {
	var arguments []byte
	var enabled, rings string
	err := conn.QueryRow(ctx, sql.Text("catalogue_doorbell.sql", map[string]string{"class": sql.DoorbellClass}), pgx.QueryExecModeExec, r.oid).
		Scan(&arguments, &enabled, &rings)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	} else if err != nil {
		return err
	}
	channel, _, _ := bytes.Cut(arguments, []byte{0})
	r.doorbell = doorbell{found: true, enabled: enabled == "true", rings: rings == "true", channel: string(channel)}
	return nil
}

// on reports whether each insert into the table notifies the channel, while somebody sleeps.
func (d doorbell) on(channel string) bool {
	return d.found && d.enabled && d.rings && channel != "" && d.channel == channel
}

// doorbell looks at the trigger that wakes a sleeping relay.
func (e *examination) doorbell(channel string) {
	switch d := e.relation.doorbell; {
	case !d.found:
		e.ok("doorbell", "there is no doorbell trigger; a sleeping relay finds rows at its next poll (`outbox-relay schema --doorbell` prints the trigger)")
	case !d.enabled:
		e.warn("doorbell", "alter table "+e.table.Quoted()+" enable trigger outbox_relay_doorbell;", "the doorbell trigger is disabled")
	case channel == "":
		e.warn("doorbell", "set OUTBOX_LISTEN_CHANNEL="+d.channel+", or drop the trigger",
			"the doorbell trigger notifies channel %s, and OUTBOX_LISTEN_CHANNEL is empty, so nobody listens", d.channel)
	case d.channel != channel:
		e.warn("doorbell", "set OUTBOX_LISTEN_CHANNEL="+d.channel+", or apply again what `outbox-relay schema --doorbell` prints",
			"the doorbell trigger notifies channel %s, the relay listens on %s", d.channel, channel)
	case !d.rings:
		e.warn("doorbell", "apply again what `outbox-relay schema --doorbell` prints", "the doorbell trigger has been changed so that it does not notify for each insert")
	default:
		e.ok("doorbell", "a trigger wakes a sleeping relay through channel %s", d.channel)
	}
}
