package main

import (
	"context"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
)

const examples = 3 // number of ids shown of each fault

// judge compares what arrived with what was committed, prints the verdict and reports whether everything is right.
func (d *demo) judge(ctx context.Context) (right bool, err error) {
	inTable, unmarked, err := d.database.rows(ctx)
	if err != nil {
		return false, err
	}
	c, latency, faults := d.ledger.Counts(), d.ledger.Latency(time.Time{}), d.ledger.Check()
	d.view.say("")
	d.view.say("committed  %d rows in %d transactions", c.Committed, c.Commits)
	d.view.say("rolled back  %d rows in %d transactions", c.RolledBack, c.Rollbacks)
	d.view.say("arrived  %d", c.Arrived)
	d.view.say("from COMMIT to arrival  p50 %s, p99 %s, longest %s", short(latency.P50), short(latency.P99),
		short(latency.Longest))
	d.view.say("")
	right = true
	for _, fault := range ledger.AllFaults {
		if ids := faults[fault]; len(ids) > 0 {
			right = false
			d.view.say("WRONG: %d %s, such as %s", len(ids), fault, strings.Join(ids[:min(examples, len(ids))], ", "))
		}
	}
	if inTable != c.Committed {
		right = false
		d.view.say("WRONG: the table has %d rows", inTable)
	}
	if unmarked > 0 {
		right = false
		d.view.say("WRONG: the relay left %d rows without relayed_at", unmarked)
	}
	if c.Committed == 0 {
		right = false
		d.view.say("WRONG: the application wrote nothing")
	}
	if right {
		d.view.say("RIGHT: exactly what was committed arrived, each row once, unchanged, and in order for each key.")
	}
	return right, nil
}
