package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
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

// patiences are those of all reads.
type patiences struct{ walk, sweep, scan, trial, failed, due patience }

func newPatiences() patiences {
	short := patience{least: patienceShort, most: statementTimeout, limit: patienceShort}
	long := patience{least: statementTimeout, most: patienceMost * statementTimeout, limit: statementTimeout}
	return patiences{walk: long, sweep: short, scan: short, trial: short, failed: long, due: long}
}

// of returns the patience for a request.
func (p *patiences) of(r request) *patience {
	switch {
	case r.kind == readTrial:
		return &p.trial
	case r.kind == readScan:
		return &p.scan
	case r.kind == readSweep:
		return &p.sweep
	case r.kind == readFailed:
		return &p.failed
	case r.kind == readDue:
		return &p.due
	default:
		return &p.walk
	}
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
