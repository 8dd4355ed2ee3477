package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
)

// patience is how long a kind of read may take, and when it may be made again. A read whose time was over is not repeated at once:
// it rests in proportion to what it took, the others go first, and then it has twice the time. So one that steps over millions of
// dead entries, say, comes to its end some day, and excludes nobody until then.
type patience struct {
	least, most time.Duration
	limit       time.Duration
	rest        time.Time // none of the kind is made before
}

const (
	patienceShort = 3 * time.Second // for what the flow of rows does not need: it waits meanwhile
	patienceMost  = 16              // times the statement timeout, for what it needs
)

// newPatiences returns the patience for each kind of read. All reads of the walk share one.
func newPatiences() map[feed.Kind]*patience {
	short := func() *patience { return &patience{least: patienceShort, most: statementTimeout, limit: patienceShort} }
	long := func() *patience {
		return &patience{least: statementTimeout, most: patienceMost * statementTimeout, limit: statementTimeout}
	}
	walk := long()
	return map[feed.Kind]*patience{feed.Walk: walk, feed.Head: walk, feed.Guard: walk, feed.Glance: walk,
		feed.Sweep: short(), readScan: short(), readTrial: short(), readFailed: long(), readDue: long()}
}

// over takes note of a read that has failed, and reports whether that was because its time was over: then the next one has more, and
// none is made for so many times what it took. A server that did not answer at all may have been away: then only what has little time
// anyway rests.
func (p *patience) over(err error, share, took time.Duration, ended time.Time) bool {
	if !outbox.Cancelled(err) && (!outbox.TimedOut(err) || took < p.limit || p.least > patienceShort) {
		return false
	}
	p.limit = min(2*p.limit, p.most)
	p.rest = ended.Add(share * took)
	return true
}

// ended takes note of a read that was answered. What has needed more time keeps it.
func (p *patience) ended(took time.Duration) { p.limit = min(max(p.least, 2*took), p.limit) }

// resting reports whether no read of the kind may be made now.
func (p *patience) resting(now time.Time) bool { return now.Before(p.rest) }
