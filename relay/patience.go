package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
)

// patience is how long a kind of read may take, and when it may be made again. A read that ran out of time is not
// repeated at once: it rests in proportion to the time it took, the other reads go first, and then it has twice the
// time. So a read that has to step over millions of dead entries, for instance, completes in the end and does not keep
// the others from running until then.
type patience struct {
	least, most time.Duration
	limit       time.Duration
	rest        time.Time // no read of the kind is made before this time
}

const (
	patienceShort = 3 * time.Second // for reads that the flow of rows does not need: the flow waits for them
	patienceMost  = 16              // times the statement timeout, for reads that it needs
)

// newPatiences returns the patience of each kind of read. All reads of the tail scan share one.
func newPatiences() map[feed.Kind]*patience {
	short := func() *patience {
		return &patience{least: patienceShort, most: dispatch.StatementTimeout, limit: patienceShort}
	}
	long := func() *patience {
		return &patience{least: dispatch.StatementTimeout, most: patienceMost * dispatch.StatementTimeout, limit: dispatch.StatementTimeout}
	}
	tail := long()
	return map[feed.Kind]*patience{
		feed.Tail: tail, feed.Head: tail, feed.Guard: tail, feed.Glance: tail,
		feed.Reconcile: short(), readScan: short(), readHeads: short(), readFailed: long(), readDue: long(),
	}
}

// short reports whether the flow of rows does not need such reads.
func (p *patience) short() bool { return p.least == patienceShort }

// over records a read that failed, and reports whether it ran out of time. If so, the next read of the kind has more
// time, and none is made for share times the time it took. If the server did not answer at all, it may have been away;
// then only the kinds that have little time rest.
func (p *patience) over(err error, share, took time.Duration, ended time.Time) bool {
	silent := outbox.TimedOut(err) && took >= p.limit
	if !outbox.Cancelled(err) && !(silent && p.short()) {
		return false
	}
	p.limit = min(2*p.limit, p.most)
	p.rest = ended.Add(share * took)
	return true
}

// ended records a read that was answered. The limit falls to twice the time taken, but not below the least.
func (p *patience) ended(took time.Duration) { p.limit = min(max(p.least, 2*took), p.limit) }

// resting reports whether the kind may not be read now.
func (p *patience) resting(now time.Time) bool { return now.Before(p.rest) }
