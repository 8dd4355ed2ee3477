package relay

import "time"

// rejected are the rows that were accepted and that the database would not mark. They stay in flight: published again they would
// be no better.
type rejected struct {
	rows   []*row // in the order in which they are tried again
	trying int    // under way
	due    time.Time
	batch  int   // how many are tried next
	told   int   // how many the log has told of, 0 when it has told that all is well
	why    error // the last one
}

const (
	// rejectedPause is how long rows wait that the database would not mark.
	rejectedPause = 10 * time.Second

	// rejectedBatch is how many of them are tried at once: looking for the bad ones among them takes up to two statements for each.
	// While none of those is bad, the next ones follow at once and twice as many.
	rejectedBatch = 32
)

// keepRejected keeps the rows that the database would not mark. They do not put off the next try of those that are known.
func (d *dispatch) keepRejected(o *outcome, now time.Time) {
	k := &d.rejected
	if len(k.rows)+k.trying == 0 {
		k.due, k.batch, k.told = now.Add(rejectedPause), rejectedBatch, 0
	}
	for _, r := range o.accepted {
		if o.rejected[r.Identity()] {
			k.rows = append(k.rows, r)
		}
	}
	k.why = o.why
	if o.again == againRejected {
		k.due, k.batch = now.Add(rejectedPause), rejectedBatch
	}
	if n := len(k.rows); n >= max(1, 2*k.told) {
		k.told = n
		d.logger.Error("rows are published and cannot be marked, since the table does not take the change; they are kept in memory and tried again, and a restart publishes them again",
			"rows", n, "error", o.why)
	}
}

// retry returns rows to try again now.
func (k *rejected) retry(now time.Time) (o outcome, ok bool) {
	if len(k.rows) == 0 || now.Before(k.due) {
		return outcome{}, false
	}
	k.trying = min(k.batch, len(k.rows))
	o = outcome{accepted: k.rows[:k.trying:k.trying], again: againRejected}
	k.rows, k.batch = k.rows[k.trying:], 2*k.batch
	return o, true
}

// retriedRejected takes note that a retry is over.
func (d *dispatch) retriedRejected(well bool, now time.Time) {
	k := &d.rejected
	k.trying = 0
	if well {
		k.due = now
	}
	if k.told > 0 && len(k.rows) == 0 {
		k.told = 0
		d.logger.Info("rows that could not be marked are marked now")
	}
}

// retrying reports whether rows that could not be written before are with the settlers.
func (d *dispatch) retrying() bool { return d.locked.trying+d.rejected.trying > 0 }

// stuck returns how many rows in flight can be neither written nor published.
func (d *dispatch) stuck() int {
	return len(d.rejected.rows) + d.rejected.trying + len(d.locked.accepted) + len(d.locked.refused) + d.locked.trying
}

// clogged reports whether these rows leave no room for others.
func (d *dispatch) clogged() bool {
	rows, bytes := d.room()
	return (rows <= 0 || bytes <= 0) && d.stuck() >= len(d.inFlight)
}
