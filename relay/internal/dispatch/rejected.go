package dispatch

import "time"

// rejected holds the rows that were accepted and that the database does not mark. They stay in flight, since publishing
// them again would not help.
type rejected struct {
	rows   []*Row // rows in the order in which they are tried again
	trying int    // number of rows that are being tried again
	due    time.Time
	batch  int   // number of rows that are tried next
	logged int   // number of rows that the log has reported; 0 once it has reported that all are marked
	why    error // the database's last error
}

const (
	// rejectedPause is how long rows wait that the database did not mark.
	rejectedPause = 10 * time.Second

	// rejectedBatch is how many rows are tried at once. Finding the bad rows in a batch takes up to two statements for
	// each of them. While no row is bad, the next batch follows at once and has twice the size.
	rejectedBatch = 32
)

// keepRejected keeps the rows that the database did not mark. They do not postpone the next try of the rows that are
// already kept.
func (d *Dispatch) keepRejected(o *Outcome, now time.Time) {
	k := &d.rejected
	accepted, idle := o.Accepted, len(k.rows)+k.trying == 0
	if len(o.Effects) > 0 {
		o.Accepted = nil
		for _, r := range accepted {
			if o.Effects[r.Identity()] == Unwritable {
				k.rows = append(k.rows, r)
			} else {
				o.Accepted = append(o.Accepted, r)
			}
		}
	}
	if len(o.Accepted) == len(accepted) {
		if o.Again == againRejected {
			k.due = now // the rows that were tried are marked, and the next ones follow
		}
		return
	}
	if idle {
		k.logged = 0
	}
	if idle || o.Again == againRejected {
		k.due, k.batch = now.Add(rejectedPause), rejectedBatch
	}
	k.why = o.Why
	if n := len(k.rows); n >= max(1, 2*k.logged) {
		k.logged = n
		d.Logger.Error("rows are published and cannot be marked, since the table does not take the change; "+
			"they are kept in memory and tried again, and a restart publishes them again",
			"rows", n, "id", k.rows[0].Message.ID, "topic", k.rows[0].Message.Topic, "error", o.Why)
	}
}

// retry returns the rows to try again now.
func (k *rejected) retry(now time.Time) (o Outcome, ok bool) {
	if len(k.rows) == 0 || now.Before(k.due) {
		return Outcome{}, false
	}
	k.trying = min(k.batch, len(k.rows))
	o = Outcome{Accepted: k.rows[:k.trying:k.trying], Again: againRejected}
	k.rows, k.batch = k.rows[k.trying:], 2*k.batch
	return o, true
}

// retriedRejected notes that a retry of rejected rows is over.
func (d *Dispatch) retriedRejected() {
	k := &d.rejected
	k.trying = 0
	if k.logged > 0 && len(k.rows) == 0 {
		k.logged = 0
		d.Logger.Info("rows that could not be marked are marked now")
	}
}

// retrying reports whether the settlers have rows that could not be written before.
func (d *Dispatch) retrying() bool { return d.locked.trying+d.rejected.trying > 0 }

// stuck returns how many rows in flight can be neither written nor published.
func (d *Dispatch) stuck() int {
	return len(d.rejected.rows) + d.rejected.trying + len(d.locked.accepted) + len(d.locked.refused) + d.locked.trying
}

// clogged reports whether these rows leave no room for others.
func (d *Dispatch) clogged() bool {
	stuck := d.stuck()
	return (len(d.inFlight) >= d.Limits.Rows || d.bytes >= d.Limits.Bytes) && stuck >= len(d.inFlight)
}

// unwritten returns the bytes of the rows whose outcome cannot be written at present.
func (d *Dispatch) unwritten() (bytes int64) {
	for _, rows := range [][]*Row{d.locked.accepted, d.rejected.rows} {
		for _, r := range rows {
			bytes += r.Size
		}
	}
	for _, x := range d.locked.refused {
		bytes += x.Row.Size
	}
	return bytes
}

// WaitsFor counts the rows that are not written because another session keeps them locked.
func (d *Dispatch) WaitsFor() int { return len(d.locked.accepted) + len(d.locked.refused) }
