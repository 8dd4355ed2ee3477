package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// Random schedules: rows commit in and out of order while brokers, database and owners fail in every way.
// In the end everything is relayed or failed, in order, nothing was marked that was not delivered, nothing
// was delivered twice without a reason, and the relay remembers nothing.
func TestRandomSchedules(t *testing.T) {
	schedules(t, 2500, func(t *testing.T, s *sim, r *rand.Rand) { newSchedule(t, s, r).run() })
}

// schedule is one random run.
type schedule struct {
	*sim
	t         *testing.T
	r         *rand.Rand
	ambiguous bool // faults may happen after which a row may be delivered twice
	late      bool // rows may commit out of order
	two       bool // destinations
	block     bool // a failed row blocks its key
	events    int
	pause     time.Duration // the longest between two of them

	ordinal     int64
	keys        int
	uncommitted []func()
	open        []func() // inserts of a transaction that goes on
	transaction uint32   // that one
	unlucky     []string // ids of rows that no broker ever takes
	refusals    sync.Map // answers of the class by id, *atomic.Int64
	auditDown   atomic.Bool
	release     func() // of the table's writes

	engines sync.WaitGroup
	stop    func() // stops the present engine cleanly
	abandon func() // cuts it off from everything
	fresh   int
}

func newSchedule(t *testing.T, s *sim, r *rand.Rand) *schedule {
	c := &schedule{sim: s, t: t, r: r, ambiguous: r.IntN(2) == 0, late: r.IntN(2) == 0, two: r.IntN(3) == 0, block: r.IntN(3) == 0, keys: 1 + r.IntN(20), release: func() {}}
	s.limits = Limits{Batch: 1 + r.IntN(50), Rows: 1 + r.IntN(200), Bytes: 1 << uint(r.IntN(20)), keys: []int{0, 0, 1, 5}[r.IntN(4)]}
	// Most schedules are short and dense, so that there can be many of them.
	c.events, c.pause, s.interval = 5+r.IntN(20), 100*time.Millisecond, time.Duration(50+r.IntN(400))*time.Millisecond
	if r.IntN(100) == 0 {
		c.events, c.pause, s.interval = 20+r.IntN(60), 300*time.Millisecond, 50*time.Millisecond
	}
	s.table.took = time.Duration(r.IntN(5000)) * time.Microsecond
	s.table.ordinal = r.IntN(5) > 0
	s.table.keepsFailures, s.table.keepsAttempts = r.IntN(6) > 0, r.IntN(6) > 0
	s.Delay(time.Duration(r.IntN(10000)) * time.Microsecond)
	c.late = c.late && s.table.ordinal // else there is no telling what is late
	t.Logf("ambiguous %v, late %v, two %v, block %v, ordinal %v, keeps failures %v and attempts %v, limits %+v", c.ambiguous, c.late, c.two, c.block,
		s.table.ordinal, s.table.keepsFailures, s.table.keepsAttempts, s.limits)
	return c
}

func (c *schedule) run() {
	c.begin()
	for range c.events {
		c.event()
		time.Sleep(time.Duration(c.r.Int64N(int64(c.pause))))
	}
	c.heal()
	if !c.table.keepsFailures {
		for _, id := range c.unlucky {
			c.Heal(id)
		}
		c.unlucky = nil
	}
	for deadline := time.Now().Add(10 * time.Minute); len(c.table.pending()) > 0 || c.block && len(c.table.failedRows()) > 0; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Errorf("%d rows still pending: %.300q", len(c.table.pending()), c.table.pending())
			break
		}
		if c.block {
			c.freeFailed(1)
		}
		if time.Until(deadline) > 5*time.Minute {
			c.trickle() // which shows that a row without an answer is not the broker's fault
		}
	}
	c.forgotten()
	c.stop()
	c.engines.Wait()
	c.check()
}

func (c *schedule) event() {
	switch c.r.IntN(24) {
	case 0:
		c.Down()
	case 1, 2:
		c.Up()
	case 3:
		c.table.setDown(true)
	case 4, 5:
		c.table.setDown(false)
	case 6:
		c.Remove("b")
	case 7:
		c.Create("b")
	case 8:
		c.DownTopic("c")
	case 9:
		c.UpTopic("c")
	case 10:
		c.auditDown.Store(true)
	case 11:
		c.auditDown.Store(false)
	case 12:
		c.release()
		c.release = c.table.hold()
	case 13:
		c.release()
	case 14:
		c.table.mu.Lock()
		c.table.lossy = 2
		c.table.mu.Unlock()
	case 18: // an application locks some rows, and lets go of others
		c.table.lock(func(string) bool { return c.r.IntN(4) == 0 })
	case 15: // a rolling restart
		if !c.ambiguous { // or what was acknowledged cannot be written in time
			c.table.setDown(false)
			c.table.lock(func(string) bool { return false })
			c.release()
		}
		c.stop()
		c.begin()
	case 16:
		if c.ambiguous { // a takeover from an owner that is cut off
			c.abandon()
			c.begin()
		}
	case 17:
		c.freeFailed(2)
	default:
		for range c.r.IntN(40) {
			c.insert()
		}
		for len(c.uncommitted) > 0 && c.r.IntN(3) > 0 {
			c.uncommitted[0]()
			c.uncommitted = c.uncommitted[1:]
		}
	}
}

// freeFailed retries or discards one failed row in so many. Those that no broker ever takes are discarded.
func (c *schedule) freeFailed(oneIn int) {
	for _, id := range c.table.failedRows() {
		if c.r.IntN(oneIn) == 0 {
			c.table.free(id, c.r.IntN(4) == 0 || slices.Contains(c.unlucky, id))
		}
	}
}

// insert draws an ordinal for a row and commits it, now or late.
func (c *schedule) insert() {
	c.ordinal++
	ordinal, topic := c.ordinal, []string{"a", "a", "a", "b", "c"}[c.r.IntN(5)]
	if c.two && c.r.IntN(3) == 0 {
		topic = "audit." + topic
	}
	k := c.r.IntN(c.keys + 1)
	id, key := fmt.Sprintf("key%d-%06d", k, ordinal), fmt.Sprintf("key%d", k)
	if k == c.keys {
		id, key = fmt.Sprintf("row%06d", ordinal), ""
	}
	fault := c.r.IntN(80)
	switch {
	case fault == 0:
		c.Refuse(id, 1+c.r.IntN(7))
	case fault == 1:
		c.Poison(id)
		c.unlucky = append(c.unlucky, id)
	case fault == 2 && c.ambiguous:
		c.LoseAnswer(id, 1+c.r.IntN(2))
	case fault == 3 && c.ambiguous:
		c.LoseMessage(id, 1+c.r.IntN(4))
	case fault == 4 && c.ambiguous && c.r.IntN(4) == 0:
		c.Crash(id)
		c.unlucky = append(c.unlucky, id)
	}
	drawn := time.Now()
	add := func() {
		c.table.add(ordinal, id, key, topic)
		c.table.rows[id].drawn = drawn
	}
	if c.late && c.r.IntN(6) == 0 { // with further rows of the transaction, between which others draw theirs
		if len(c.open) == 0 {
			c.transaction = c.table.begin()
		}
		c.open = append(c.open, add)
		if c.r.IntN(2) == 0 {
			return
		}
		c.uncommitted = append(c.uncommitted, c.commitOpen())
		return
	}
	transaction := c.table.begin()
	commit := func() { c.table.commit(transaction, add) }
	if c.late && c.r.IntN(6) == 0 {
		c.uncommitted = append(c.uncommitted, commit)
		return
	}
	commit()
}

// commitOpen returns how to commit the transaction that goes on.
func (c *schedule) commitOpen() func() {
	adds, transaction := c.open, c.transaction
	c.open = nil
	return func() {
		c.table.commit(transaction, func() {
			for _, add := range adds {
				add()
			}
		})
	}
}

// trickle inserts a row of which nothing is said.
func (c *schedule) trickle() {
	c.ordinal++
	c.fresh++
	c.table.insert(c.ordinal, "fresh"+strconv.Itoa(c.fresh), "", "a")
	if c.two {
		c.table.insert(c.ordinal, "fresh audit"+strconv.Itoa(c.fresh), "", "audit.a")
	}
}

func (c *schedule) heal() {
	c.uncommitted = append(c.uncommitted, c.commitOpen())
	for _, commit := range c.uncommitted {
		commit()
	}
	c.Up()
	c.table.setDown(false)
	c.table.lock(func(string) bool { return false })
	c.release()
	c.auditDown.Store(false)
	c.Create("b")
	c.Create("audit.b")
	c.UpTopic("c")
}

// begin starts an engine with a publisher of its own, as another process would.
func (c *schedule) begin() {
	var trusted atomic.Pointer[time.Time]
	hour := time.Now().Add(24 * time.Hour)
	trusted.Store(&hour)
	c.owner = newSimOwner(simShards)
	c.owner.trusted = func() time.Time { return *trusted.Load() }
	link := &session{simTable: c.table}
	here := &tracked{Publisher: c.Broker.Publisher(), schedule: c, down: new(atomic.Bool)}
	there := &tracked{Publisher: c.Broker.Publisher(), schedule: c, down: &c.auditDown}
	d := c.destination("default", c.Broker)
	d.Publisher, d.BackoffMin, d.BackoffMax, d.BlockFailed = here, 50*time.Millisecond, time.Second, c.block
	c.destinations = []*Destination{d}
	if c.two {
		audit := c.destination("audit", c.Broker)
		audit.Publisher, audit.BackoffMax, audit.BlockFailed, audit.Topics = there, d.BackoffMax, d.BlockFailed, []string{"audit.*"}
		c.destinations = []*Destination{audit, d}
	}
	cancel, done := c.startOn(link)
	c.engines.Go(func() { <-done })
	c.stop = func() { cancel(); <-done }
	c.abandon = func() {
		past := time.Now()
		trusted.Store(&past)
		link.cut.Store(true)
		_, _ = here.Close(), there.Close()
		cancel()
	}
}

// session is a relay's own way to the table.
type session struct {
	*simTable
	cut atomic.Bool
}

func (s *session) Read(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	if s.cut.Load() {
		return outbox.Page{}, errSimDown
	}
	return s.simTable.Read(ctx, q)
}

func (s *session) Settle(ctx context.Context, rows []*outbox.Row) error {
	if s.cut.Load() {
		return errSimDown
	}
	return s.simTable.Settle(ctx, rows)
}

func (s *session) SettleFree(ctx context.Context, rows []*outbox.Row) ([]string, error) {
	if s.cut.Load() {
		return nil, errSimDown
	}
	return s.simTable.SettleFree(ctx, rows)
}

func (s *session) Refuse(ctx context.Context, refusals []outbox.Refusal) (written, locked []string, err error) {
	if s.cut.Load() {
		return nil, nil, errSimDown
	}
	return s.simTable.Refuse(ctx, refusals)
}

// tracked notes in each message when its call began, and counts refusals.
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

// forgotten waits until the dispatch knows of nothing any more.
func (c *schedule) forgotten() {
	var left string
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		synctest.Wait()
		left = remembered(c.loop.dispatch)
		c.wakes <- sourceDoorbell // the loop goes on after this
		if left == "" {
			return
		}
	}
	c.t.Errorf("still remembered: %s", left)
}

// remembered describes what d holds, "" when that is nothing. Nobody may be using d.
func remembered(d *dispatch) string {
	left := ""
	add := func(what string, n int) {
		if n > 0 {
			left += fmt.Sprintf("%d %s; ", n, what)
		}
	}
	add("in flight", len(d.inFlight))
	add("bytes", int(d.bytes))
	add("gone", len(d.gone))
	add("blocked", len(d.blocks.byKey))
	add("due", len(d.blocks.due))
	add("topics", len(d.topics))
	add("lanes", len(d.lanes))
	add("to settle", len(d.settle)+len(d.refuse)+len(d.rejected)+len(d.locked.accepted)+len(d.locked.refused))
	for _, to := range d.destinations {
		add("blocks of the hold", len(to.hold.blocks))
		add("failures", to.hold.failures)
		for i := range to.queues {
			add("queued", to.queues[i].len())
		}
	}
	return left
}

// delivery is the first delivery of a row.
type delivery struct {
	row    *simRow
	called time.Time
}

func (c *schedule) check() {
	if overlaps := c.Overlaps(); len(overlaps) > 0 && !c.ambiguous {
		c.t.Errorf("keys in two calls at once: %q", overlaps)
	}
	first, duplicates := firsts(c.All())
	if duplicates > 0 && !c.ambiguous {
		c.t.Errorf("%d rows were delivered twice without a reason", duplicates)
	}
	byKey, delivered := map[string][]delivery{}, map[string]bool{}
	for _, m := range first {
		delivered[m.ID] = true
		if m.Key == nil {
			continue
		}
		called, _ := m.Header(headerCalled)
		nanos, err := strconv.ParseInt(called, 10, 64)
		if err != nil {
			c.t.Fatal(err)
		}
		byKey[string(m.Key)] = append(byKey[string(m.Key)], delivery{c.table.rows[m.ID], time.Unix(0, nanos)})
	}
	failed := map[string][]*simRow{}
	for _, row := range c.table.rows {
		if row.message.Key != nil && row.failures != nil {
			failed[string(row.message.Key)] = append(failed[string(row.message.Key)], row)
		}
	}
	for key, deliveries := range byKey {
		c.checkKey(key, deliveries)
		if c.block {
			c.checkBlocked(key, deliveries, failed[key])
		}
	}
	for id, row := range c.table.rows {
		c.checkRow(row, delivered[id])
	}
}

// checkKey allows a younger row before an older one only if its call began before the older one was seen, and
// not at all if the younger one was inserted when the older one had been committed, or by the same transaction.
func (c *schedule) checkKey(key string, deliveries []delivery) {
	for i, old := range deliveries {
		if old.row.failures != nil && !c.block {
			continue // the key went on without it
		}
		for _, young := range deliveries[:i] {
			if !c.table.position(old.row).Before(c.table.position(young.row)) {
				continue
			}
			if c.table.ordinal && (old.row.committed.Before(young.row.drawn) || old.row.transaction == young.row.transaction) {
				c.t.Errorf("key %s: %s came after %s, which was inserted at %v in transaction %d, and it was committed at %v in %d", key,
					old.row.id, young.row.id, young.row.drawn.UnixMilli(), young.row.transaction, old.row.committed.UnixMilli(), old.row.transaction)
			}
			seen := old.row.seen
			if c.block {
				seen = seen.Add(5*c.table.took + time.Millisecond) // its page may have waited for a read of the failed rows
			}
			if young.called.After(seen) {
				c.t.Errorf("key %s: %s was sent at %v, after %s had been seen at %v, which came later", key, young.row.id, young.called.UnixMilli(), old.row.id, old.row.seen.UnixMilli())
			}
		}
	}
}

// checkBlocked allows no delivery of a key while one of its rows has failed.
func (c *schedule) checkBlocked(key string, deliveries []delivery, failed []*simRow) {
	for _, d := range deliveries {
		for _, f := range failed {
			for _, s := range f.failures {
				if d.called.After(s.from) && (s.to.IsZero() || d.called.Before(s.to)) {
					c.t.Errorf("key %s: %s was sent at %v while %s had failed, from %v on", key, d.row.id, d.called.UnixMilli(), f.id, s.from.UnixMilli())
				}
			}
		}
	}
}

func (c *schedule) checkRow(row *simRow, delivered bool) {
	if row.relayed != delivered && !row.failed && !row.discarded {
		c.t.Errorf("%s: relayed %v, delivered %v", row.id, row.relayed, delivered)
	}
	refused := int64(0)
	if n, ok := c.refusals.Load(row.id); ok {
		refused = n.(*atomic.Int64).Load()
	}
	unlucky := slices.Contains(c.unlucky, row.id)
	switch {
	case unlucky && !row.failed && !row.discarded:
		c.t.Errorf("%s cannot be delivered and did not fail", row.id)
	case row.failed && !unlucky && refused < 5:
		c.t.Errorf("%s failed after %d refusals: %s", row.id, refused, row.lastError)
	case row.failures != nil && !row.failed: // its attempts began anew
	case c.table.keepsAttempts && !c.ambiguous && row.attempt != 1+refused:
		c.t.Errorf("%s: attempt %d after %d refusals", row.id, row.attempt, refused)
	case c.table.keepsAttempts && c.table.keepsFailures && !c.ambiguous && refused > 5:
		c.t.Errorf("%s: %d refusals", row.id, refused)
	}
}
