package relay

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// begin starts an engine with a publisher of its own, as another process would.
func (c *schedule) begin() {
	var trusted atomic.Pointer[time.Time]
	hour := time.Now().Add(24 * time.Hour)
	trusted.Store(&hour)
	c.owner, c.heir = newSimOwner(simShards), newSimOwner(0)
	c.owner.trusted = func() time.Time { return *trusted.Load() }
	link := &session{simTable: c.table, cut: new(atomic.Bool)}
	link.open()
	here := &tracked{Publisher: c.Broker.Publisher(), schedule: c, down: new(atomic.Bool)}
	there := &tracked{Publisher: c.Broker.Publisher(), schedule: c, down: &c.auditDown}
	d := c.destination("default", c.Broker)
	d.Publisher, d.BackoffMin, d.BackoffMax, d.BlockFailed = here, 50*time.Millisecond, time.Second, c.block
	d.Rate, d.MaxAge = c.rate, c.age
	c.destinations = []*Destination{d}
	var copies *tracked
	if c.other != nil && !c.apart {
		copies = &tracked{Publisher: c.other.Publisher(), schedule: c.other, down: new(atomic.Bool)}
		to := c.destination("copies", c.other.Broker)
		to.Publisher, to.BackoffMin, to.BackoffMax, to.BlockFailed = copies, d.BackoffMin, d.BackoffMax, c.other.block
		to.MaxAge = c.age
		to.Columns = map[string]string{"relayed_at": "copied_at"}
		c.destinations = append(c.destinations, to)
	}
	if c.two {
		audit := c.destination("audit", c.Broker)
		audit.MaxAge = c.age
		audit.Publisher, audit.BackoffMax, audit.BlockFailed, audit.Topics = there, d.BackoffMax, d.BlockFailed,
			[]string{"audit.*"}
		c.destinations = slices.Insert(c.destinations, 0, audit)
	}
	cancel, done := c.startOn(link)
	c.engines.Go(func() { <-done })
	c.stop = func() { cancel(); <-done }
	c.abandon = func() {
		past := time.Now()
		trusted.Store(&past)
		link.cut.Store(true)
		_, _ = here.Close(), there.Close()
		if copies != nil {
			_ = copies.Close()
		}
		cancel()
	}
}

// session is a relay's own access to the table.
type session struct {
	*simTable
	cut     *atomic.Bool
	version int // version of the table when the session opened it
}

func (s *session) open() { s.version = s.opened() }

// read returns the reason why the table cannot be read.
func (s *session) read() error {
	switch {
	case s.cut.Load():
		return errSimDown
	case s.opened() != s.version:
		return errSimChanged
	}
	return nil
}

func (s *session) Tail(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	if err := s.read(); err != nil {
		return outbox.Page{}, err
	}
	return s.simTable.Tail(ctx, q)
}

func (s *session) Keys(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	if err := s.read(); err != nil {
		return outbox.Page{}, err
	}
	return s.simTable.Keys(ctx, q)
}

func (s *session) Blocked(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	if err := s.read(); err != nil {
		return outbox.Page{}, err
	}
	return s.simTable.Blocked(ctx, q)
}

func (s *session) Settle(ctx context.Context, rows []*outbox.Row, free bool) (map[string]error, error) {
	if s.cut.Load() {
		return nil, errSimDown
	}
	return s.simTable.Settle(ctx, rows, free)
}

func (s *session) Rehearse(ctx context.Context, rows []*outbox.Row) (refused map[string]error, err error) {
	if s.cut.Load() {
		return nil, errSimDown
	}
	return s.simTable.Rehearse(ctx, rows)
}

func (s *session) Refuse(ctx context.Context, refusals []outbox.Refusal) (unwritten map[string]error, err error) {
	if s.cut.Load() {
		return nil, errSimDown
	}
	unwritten, err = s.simTable.Refuse(ctx, refusals)
	if s.cut.Load() {
		s.unseen(refusals)
	}
	return unwritten, err
}

// unseen notes that failures were written by a relay that was cut off meanwhile. The commit may come after the next
// owner has listed the failed rows, which then learns of it from the next list.
func (s *session) unseen(refusals []outbox.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range refusals {
		if r := s.rows[x.ID()]; x.Failed && len(r.failures) > 0 {
			last := &r.failures[len(r.failures)-1]
			last.from = last.from.Add(5 * time.Second)
		}
	}
}

// tracked records in each message when its call began, and counts refusals.
type tracked struct {
	publisher.Publisher
	*schedule
	down *atomic.Bool
}

const headerCalled = "called"

func (p *tracked) Publish(ctx context.Context, messages []publisher.Message) []error {
	if p.down.Load() {
		errs := make([]error, len(messages))
		for i := range errs {
			errs[i] = publisher.UnavailableError(publisher.ScopeDestination, "down", "down")
		}
		return errs
	}
	called := []publisher.Header{{Name: headerCalled, Value: strconv.FormatInt(time.Now().UnixNano(), 10)}}
	messages = slices.Clone(messages)
	for i := range messages {
		messages[i].Headers = called
	}
	errs := p.Publisher.Publish(ctx, messages)
	for i, err := range errs {
		if class := publisher.ClassOf(err); class == publisher.Refused || class == publisher.Permanent {
			n, _ := p.refusals.LoadOrStore(messages[i].ID, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		}
	}
	return errs
}
