package dispatch

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// All rows that could try a destination leave without an answer. The outage is over then, since nothing else would end it: the replica
// would not be ready until the next row came. A row that was refused and has yet to wait, and one that was accepted and cannot be
// marked, try nothing.
func TestOutageWithoutRowsIsOver(t *testing.T) {
	for name, leave := range map[string]func(*Dispatch, time.Time){
		"they expire": func(d *Dispatch, now time.Time) {
			d.Hand(now, func(int, []*Row) {})
			refusalsWritten(d, now)
		},
		"their shards are given away": func(d *Dispatch, _ time.Time) {
			d.own(owner.Set{})
			d.own(owner.All(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, now := testDispatch(t), time.Now()
			d.To.BackoffMin, d.To.BackoffMax = time.Hour, time.Hour
			d.Take(rowsOf("refused", "t", 1), FromFeed, now)
			published(t, d, errRefused, "refused-1")
			refusalsWritten(d, now)
			d.Begin()
			d.Take(rowsOf("accepted", "t", 1), FromFeed, now)
			published(t, d, nil, "accepted-1")
			d.Begin()
			d.To.MaxAge = time.Second
			rows := of("t", 1, 2)
			for i := range rows {
				rows[i].Due = now
			}
			d.SetClock(now, now)
			d.Answer(0, handedOver(d, rows, now), unanswered(2), now)
			now = now.Add(time.Minute)
			leave(d, now)
			if d.Snapshot().Down == nil {
				t.Error("over although a scan may bring rows that try the destination, or it was not tried at all")
			}
			for d.ScanWanted() {
				d.Scanning()
				d.Scanned(now)
			}
			d.Hand(now, func(_ int, rows []*Row) { t.Errorf("hands over %d rows", len(rows)) })
			if down := d.Snapshot().Down; down != nil {
				t.Errorf("no row is left: %v; %s", down, d.Leftover())
			}
		})
	}
}

// unanswered returns the answers for a number of rows of a destination that is down.
func unanswered(rows int) []error {
	errs := make([]error, rows)
	for i := range errs {
		errs[i] = publisher.UnavailableError(publisher.ScopeDestination, "down", "down")
	}
	return errs
}
