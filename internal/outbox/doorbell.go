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
	err := conn.QueryRow(ctx, sql.Text("catalogue_doorbell.sql", map[string]string{"class": sql.DoorbellClass}), pgx.QueryExecModeExec, r.oid).
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

// doorbell examines the trigger that wakes a sleeping relay.
func (e *examination) doorbell(channel string) {
	names := e.config.Names
	switch d := e.relation.doorbell; {
	case !d.found:
		e.ok("doorbell", "there is no doorbell trigger; a sleeping relay finds rows at its next poll (`outbox-relay schema --doorbell` prints "+
			"the trigger)")
	case !d.enabled:
		e.warn("doorbell", "alter table "+e.table.Quoted()+" enable trigger outbox_relay_doorbell;", "the doorbell trigger is disabled")
	case channel == "":
		e.warn("doorbell", "set "+names.Of("ListenChannel")+"="+d.channel+", or drop the trigger",
			"the doorbell trigger notifies channel %s, but %s is empty, so no relay listens", d.channel, names.Of("ListenChannel"))
	case d.channel != channel:
		e.warn("doorbell", "set "+names.Of("ListenChannel")+"="+d.channel+", or apply again what `outbox-relay schema --doorbell` prints",
			"the doorbell trigger notifies channel %s, the relay listens on %s", d.channel, channel)
	case !d.rings:
		e.warn("doorbell", "apply again what `outbox-relay schema --doorbell` prints",
			"the doorbell trigger has been changed so that it does not notify for each insert")
	case d.prepares:
		e.ok("doorbell", "a trigger is there and does not ring, since transactions may be prepared here (max_prepared_transactions); a "+
			"sleeping relay finds rows at its next poll")
	default:
		e.ok("doorbell", "a trigger wakes a sleeping relay through channel %s", d.channel)
	}
}
