package relay

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
)

// read is a read to make, and its result.
type read struct {
	query outbox.Query
	kind  feed.Kind
	waits []*dispatch.Wait // keys whose heads are read
	limit time.Duration    // longest time that the read may take

	page           outbox.Page
	failed         outbox.FailedPage // result of a read of failed rows
	err            error
	cancelled      bool // the read was interrupted, which says nothing about the database
	started, ended time.Time
}

// reads are the reads of an engine. One goroutine makes them, one at a time (run). The loop decides which is next (more)
// and takes the results (taken). All else is touched only by the loop.
type reads struct {
	engine    *engine
	dispatch  *dispatch.Dispatch // the engine's
	table     Table              // the destination's view
	requests  chan read
	responses chan read

	feed      *feed.Feed
	due       feed.Due
	scan      scan
	room      room
	patience  map[feed.Kind]*patience
	busy      bool      // a read is being made
	turnOf    int       // kind of read whose turn is next
	looked    bool      // the tail scan has looked for late rows since the last read of heads
	whole     bool      // the tail scan began at the very beginning
	unchecked *read     // page to take once the failed rows have been read
	changes   uint64    // number of hints so far that rows may have been changed by hand
	failures  int       // reads that failed in a row
	retry     time.Time // no read is made before this time
}

func newReads(e *engine, table Table, limits dispatch.Limits, f *feed.Feed) *reads {
	return &reads{
		engine: e, dispatch: e.dispatch, table: table, requests: make(chan read), responses: make(chan read),
		feed: f, due: feed.NewDue(table.ReadsDue()), room: room{total: limits.Bytes, most: limits.Bytes}, patience: newPatiences(),
	}
}

// Kinds of reads that do not belong to the feed.
const (
	readFailed = feed.Others + iota // failed rows; see failures
	readScan                        // a page of a catch-up scan
	readHeads                       // the heads of keys that wait
	readDue                         // rows whose available_at has come
)

// more begins the next read, if there is something to read and room for it. The tail scan, the catch-up scans, the reads
// of heads and the reads of due rows take turns. So other rows flow however many keys wait, and waiting keys are tried
// however many rows flow.
func (s *reads) more(now time.Time) {
	if s.busy || now.Before(s.retry) {
		return
	}
	if !s.patience[readFailed].resting(now) {
		if query, ok := s.dispatch.NextFailed(now); ok {
			s.busy = true
			s.requests <- read{query: query, kind: readFailed, limit: s.patience[readFailed].limit}
			return
		}
	}
	if s.unchecked != nil || !s.dispatch.Relays() {
		return
	}
	if s.dispatch.Rewound() {
		s.abandonScan()
		s.feed.Again()
		s.due.Again()
	}
	turns := [...]func(time.Time) bool{s.readFeed, s.readScan, s.readHeads, s.readDue}
	for i := range turns {
		if next := (s.turnOf + i) % len(turns); turns[next](now) {
			s.turnOf = next + 1
			return
		}
	}
}

// begin hands a read to the reader.
func (s *reads) begin(r read) {
	if r.limit = s.patience[r.kind].limit; s.filters(&r.query) {
		r.limit = filterLimit
	}
	s.dispatch.Begin()
	s.busy = true
	s.requests <- r
}

// run makes the reads, one at a time, until there are no more requests.
func (s *reads) run(ctx context.Context) {
	for r := range s.requests {
		r.started = time.Now()
		limited, cancel := context.WithTimeout(ctx, r.limit)
		if r.kind == readFailed {
			r.failed, r.err = s.table.Failed(limited, r.query)
		} else {
			r.page, r.err = s.table.Read(limited, r.query)
		}
		cancel()
		r.cancelled, r.ended = ctx.Err() != nil, time.Now()
		s.responses <- r
	}
}

// next calls wake with each time at which a read may have to begin.
func (s *reads) next(now time.Time, wake func(time.Time)) {
	if s.busy {
		return
	}
	next := func(kind feed.Kind, due time.Time) { wake(feed.Later(feed.Later(due, s.patience[kind].rest), s.retry)) }
	d := s.dispatch
	if due, ok := d.Failures.Due(); ok {
		next(readFailed, due)
	}
	if !d.Relays() {
		return // nothing else is read
	}
	rows, bytes, _ := s.room.left(d)
	if bytes <= 0 {
		return
	}
	if !s.feed.Late.Lowered() && rows > 0 {
		d.NextTrial(func(due time.Time) { next(readHeads, feed.Later(due, d.Triable())) })
	}
	if !s.feed.Worth(rows) {
		return
	}
	if s.scanWanted() {
		next(readScan, now)
	}
	if due, ok := s.due.Wait(s.feed.Glancing(now)); ok {
		next(readDue, due)
	}
	next(feed.Tail, s.feed.Wait(now))
}

// hint notes that there may be new rows, and whether rows may have been changed by hand.
func (s *reads) hint() {
	s.feed.Hint()
	s.due.Ask()
	changes := s.engine.changes.Load()
	operated := changes != s.changes
	if s.changes = changes; operated {
		s.feed.Late.Reread()
	}
	s.dispatch.Failures.Ask(operated)
}
