package relay

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// Random schedules: rows commit in and out of order while brokers, database and owners fail in every way. In the end
// every row is relayed or failed, in order. Nothing was marked that was not delivered, nothing was delivered twice
// without a reason, and the relay remembers nothing.
func TestRandomSchedules(t *testing.T) {
	schedules(t, 1000, func(t *testing.T, s *sim, r *rand.Rand) { newSchedule(t, s, r).run() })
}

// simPartitions is the number of partitions that a topic has in half of the schedules.
const simPartitions = 4

// schedule is one random run.
type schedule struct {
	*sim
	t         *testing.T
	r         *rand.Rand
	ambiguous bool  // faults may happen after which a row may be delivered twice
	late      bool  // rows may commit out of order
	two       bool  // there are two destinations
	block     bool  // a failed row blocks its key
	alters    bool  // the table may be altered
	parts     bool  // a topic has partitions
	ties      int64 // number of rows in a row with the same order value; 0 if each has one of its own
	dense     bool  // only events that belong together happen, close to each other
	refuses   bool  // many rows are refused at first
	deadens   bool  // writes of rows may have no effect
	warm      bool  // rows have flowed for longer than recent reads go back
	rate      float64
	age       time.Duration // rows that are older fail instead of being sent; 0 if none does
	events    int
	pause     time.Duration // the longest pause between two events

	ordinal   int64
	keys      int
	open      []*openTransaction
	unlucky   []string // ids of rows that no broker ever takes
	refusals  sync.Map // number of answers of the class by id, *atomic.Int64
	auditDown atomic.Bool
	release   func() // releases the table's writes

	// other is the schedule of a destination with columns of its own: the faults of its broker and its writes, and the
	// expected result.
	other   *schedule
	copies  bool // this is the other schedule: each row is its own, whatever the topic
	apart   bool // replicas relay for one of the two destinations each, with shards of their own
	engines sync.WaitGroup
	heir    *simOwner // has the shards that the present engine has given away
	stop    func()    // stops the present engine cleanly
	abandon func()    // cuts it off from everything
	fresh   int
}

func newSchedule(t *testing.T, s *sim, r *rand.Rand) *schedule {
	c := &schedule{
		sim: s, t: t, r: r, ambiguous: r.IntN(2) == 0, late: r.IntN(2) == 0, two: r.IntN(3) == 0, block: r.IntN(3) == 0,
		keys:    1 + r.IntN(20),
		release: func() {},
	}
	s.limits = engine.Limits{
		Batch: 1 + r.IntN(50), Rows: 8 + r.IntN(200), Bytes: 1 << uint(10+r.IntN(10)),
		Keys: []int{0, 0, 8, 20}[r.IntN(4)],
	}
	// Most schedules are short and dense, so that many of them can run.
	c.events, c.pause, s.interval = 5+r.IntN(20), 100*time.Millisecond, time.Duration(50+r.IntN(400))*time.Millisecond
	if r.IntN(100) == 0 {
		c.events, c.pause, s.interval = 20+r.IntN(60), 300*time.Millisecond, 50*time.Millisecond
	}
	c.warm = r.IntN(4) == 0
	s.table.took = time.Duration(r.IntN(5000)) * time.Microsecond
	if r.IntN(50) == 0 {
		s.table.took = 0 // there is then no rest after a read, and a read that is repeated in vain lets no time pass
	}
	s.table.ordinal, s.table.byKey = r.IntN(5) > 0, r.IntN(2) == 0
	s.table.txid = r.IntN(2) == 0
	s.table.keepsFailures, s.table.keepsAttempts = r.IntN(6) > 0, r.IntN(6) > 0
	s.Delay(time.Duration(r.IntN(10000)) * time.Microsecond)
	c.late = c.late && s.table.ordinal // otherwise nothing shows which rows are late
	c.alters, c.deadens = r.IntN(3) == 0, r.IntN(4) == 0
	// a relay that opens the table again publishes again what could not be written
	c.alters = c.alters && (c.ambiguous || !c.deadens)
	s.table.delays = r.IntN(3) == 0
	s.table.readsDue = s.table.delays
	s.table.ranked = s.table.ordinal && !c.late && r.IntN(5) == 0
	if r.IntN(6) == 0 {
		c.rate = 20 + 300*r.Float64()
	}
	if c.dense = r.IntN(4) == 0; c.dense {
		c.pack()
	}
	if r.IntN(4) == 0 {
		c.ties, s.table.textIDs = 2+r.Int64N(8), r.IntN(2) == 0
	}
	if r.IntN(16) == 0 {
		c.press()
	}
	if r.IntN(8) == 0 {
		c.age = time.Duration(300+r.IntN(4000)) * time.Millisecond
	}
	s.Apart(destinationOf)
	if c.parts = r.IntN(2) == 0; c.parts {
		s.Partition("a", simPartitions)
	}
	t.Logf("ambiguous %v, late %v, two %v, block %v, rate %.0f, limits %+v", c.ambiguous, c.late, c.two, c.block, c.rate,
		s.limits)
	t.Logf("table: ordinal %v, ties %d, text ids %v, delays %v, ranked %v, keeps failures %v and attempts %v",
		s.table.ordinal, c.ties, s.table.textIDs, s.table.delays, s.table.ranked, s.table.keepsFailures,
		s.table.keepsAttempts)
	return c
}

func (c *schedule) run() {
	if c.r.IntN(3) == 0 {
		c.other = newCopies(c)
		if c.apart = c.r.IntN(2) == 0; c.apart {
			c.other.begin()
		}
	}
	c.begin()
	for range 35 {
		if c.warm {
			c.trickle()
			time.Sleep(200 * time.Millisecond)
		}
	}
	for range c.events {
		c.event()
		time.Sleep(time.Duration(c.r.Int64N(int64(c.pause))))
	}
	for len(c.open) > 0 {
		c.commit(0)
	}
	c.heal()
	if c.other != nil {
		c.other.heal()
	}
	// Reads that were never answered may get up to sixteen times the usual time when they are repeated.
	for deadline := time.Now().Add(30 * time.Minute); c.unfinished() ||
		c.other.unfinished(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Errorf("%d rows still pending: %.300q", len(c.table.pending()), c.table.pending())
			if c.other != nil {
				c.t.Errorf("at the other one: %.300q", c.other.table.pending())
			}
			break
		}
		if time.Until(deadline) > 5*time.Minute {
			c.trickle() // shows that a row without an answer is not the broker's fault
		}
	}
	for one := c; one != nil; one = one.other {
		if one.owner == nil { // the first schedule's replicas relay for it, too
			one.check()
			continue
		}
		one.forgotten()
		one.stop()
		one.engines.Wait()
		one.check()
	}
}

// unfinished reports whether rows are pending, or failed rows block their keys. It frees the failed rows.
func (c *schedule) unfinished() bool {
	if c == nil {
		return false
	}
	if c.block {
		c.freeFailed(1)
	}
	return len(c.table.pending()) > 0 || c.block && len(c.table.failedRows()) > 0
}

func (c *schedule) event() {
	if c.dense {
		c.denseEvent()
		return
	}
	switch n := c.r.IntN(44); {
	case c.apart && slices.Contains([]int{15, 16, 28, 31, 32}, n) && c.r.IntN(2) == 0,
		c.other != nil && c.r.IntN(3) == 0 && !slices.Contains([]int{10, 15, 16, 19, 21, 23}, n) && n < 28:
		c.other.happen(n)
	default:
		c.happen(n)
	}
}

func (c *schedule) happen(n int) {
	switch n {
	case 29, 30:
		c.change(4)
	case 31:
		c.giveAway(3)
	case 32:
		c.takeBack(2)
	case 28: // resumed more often than paused
		d := c.destinations[c.r.IntN(len(c.destinations))]
		d.paused.Store(!d.paused.Load() && c.r.IntN(2) == 0)
	case 24:
		if n := c.r.IntN(simPartitions); c.parts {
			c.DownPartition("a", n)
		}
	case 25:
		c.UpPartition("a", c.r.IntN(simPartitions))
	case 26:
		if c.r.IntN(3) == 0 {
			c.Silence("c")
		}
	case 27:
		c.Speak("c")
	case 20:
		if c.r.IntN(3) == 0 {
			var writes []overdue
			if c.ambiguous { // otherwise a stop would not wait for what was accepted
				writes = c.overdue()
			}
			c.table.troubles(c.overdue(), writes)
		}
	case 22:
		if c.deadens {
			c.table.deaden(func(string) bool { return c.r.IntN(6) == 0 })
		}
	case 21:
		if c.alters {
			c.table.alter()
		}
	case 19:
		if c.late && c.r.IntN(3) == 0 { // a transaction stays open for longer than recent reads reach back
			time.Sleep(outbox.Late + time.Duration(c.r.IntN(2000))*time.Millisecond)
		}
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
	case 18: // an application locks some rows and unlocks others
		if !c.alters || c.ambiguous { // a relay that opens the table again does not wait for them
			c.table.lock(func(string) bool { return c.r.IntN(4) == 0 })
		}
	case 15: // a rolling restart
		if c.deadens && !c.ambiguous {
			return // what cannot be written would be published again
		}
		if !c.ambiguous { // otherwise accepted rows may not be marked in time
			for one := c; one != nil; one = one.other {
				one.table.setDown(false)
				one.table.lock(func(string) bool { return false })
				one.release()
			}
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
		c.insertMany(40)
	}
}

// overdue makes some of the next statements take longer than they may.
func (c *schedule) overdue() (next []overdue) {
	for range c.r.IntN(5) {
		next = append(next, overdue(c.r.IntN(int(done)+1)))
	}
	return next
}

// freeFailed retries or discards one of the given number of failed rows. Rows that no broker ever accepts are
// discarded, and those that may be too old.
func (c *schedule) freeFailed(oneIn int) {
	for _, id := range c.table.failedRows() {
		if c.r.IntN(oneIn) == 0 {
			c.table.free(id, c.r.IntN(4) == 0 || slices.Contains(c.unlucky, id) || c.age > 0)
		}
	}
}

// fault makes the broker not accept a row, either ever or at first.
func (c *schedule) fault(id string) {
	fault := c.r.IntN(80)
	switch {
	case c.refuses && fault >= 64 && fault < 70:
		c.Refuse(id, 1+c.r.IntN(3))
	case c.dense && fault >= 70:
		c.Answer(id, publisher.ErrNotAttempted)
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
}

// openTransaction is a transaction that stays open while others begin, insert and commit.
type openTransaction struct {
	number uint64
	adds   []func() // inserts of the transaction
}

// mostOpen is the number of transactions that may be open at a time.
const mostOpen = 5

// trickle inserts a row that has no faults.
func (c *schedule) trickle() {
	c.ordinal++
	c.fresh++
	c.table.insert(c.tied(c.ordinal), "fresh"+strconv.Itoa(c.fresh), "", "a")
	if c.two {
		c.ordinal++
		c.table.insert(c.tied(c.ordinal), "fresh audit"+strconv.Itoa(c.fresh), "", "audit.a")
	}
}

func (c *schedule) heal() {
	c.takeBack(1)
	for _, d := range c.destinations {
		d.paused.Store(false)
	}
	c.Up()
	c.table.setDown(false)
	c.table.troubles(nil, nil)
	c.table.deaden(func(string) bool { return false })
	c.table.lock(func(string) bool { return false })
	c.release()
	c.auditDown.Store(false)
	c.Create("b")
	c.Create("audit.b")
	c.UpTopic("c")
	for _, topic := range simTopics {
		c.Speak(topic)
	}
	for n := range simPartitions {
		c.UpPartition("a", n)
	}
	if !c.table.keepsFailures {
		for _, id := range c.unlucky {
			c.Heal(id)
		}
		c.unlucky = nil
	}
}
