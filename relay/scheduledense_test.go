package relay

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// pack makes a dense schedule. Random events seldom meet in the moment in which they matter: with pages of a few rows,
// slow reads, few keys and only events that close keys, change rows or make reads begin again, a younger row that goes
// before an older one when a shard comes back is found in one of 6,000 schedules, and in none of 40,000 others.
func (c *schedule) pack() {
	c.late, c.two, c.alters, c.deadens, c.rate = c.r.IntN(4) > 0, false, false, false, 0
	c.ambiguous, c.block, c.keys = c.r.IntN(4) == 0, c.r.IntN(6) == 0, 1+c.r.IntN(8)
	c.events, c.pause, c.interval = 20+c.r.IntN(30), 200*time.Millisecond, 50*time.Millisecond
	c.limits = engine.Limits{
		Batch: 2 + c.r.IntN(8), Rows: 10 + c.r.IntN(100), Bytes: 1 << 20,
		Keys: []int{0, 0, 0, 3}[c.r.IntN(4)],
	}
	t := c.table
	t.ordinal, t.ranked, t.keepsFailures, t.keepsAttempts = true, false, true, true
	t.delays = c.r.IntN(6) == 0
	t.readsDue = t.delays
	t.took = time.Duration(2+c.r.IntN(20)) * time.Millisecond
}

// press makes a dense schedule in which refused heads, late commits and equal order values meet while calls take long.
// A head that went before a row of a page that was not taken was found in one of 20,000 of them.
func (c *schedule) press() {
	c.dense = true
	c.pack()
	c.refuses, c.late, c.ambiguous, c.block, c.keys = true, true, false, false, 1+c.r.IntN(3)
	c.ties = 2 + c.r.Int64N(8)
	c.table.delays, c.table.readsDue = false, false
	c.Delay(time.Duration(c.r.IntN(150)) * time.Millisecond)
}

// simTopics are the topics of schedules.
var simTopics = []string{"a", "b", "c"}

// denseEvent is an event of a dense schedule.
func (c *schedule) denseEvent() {
	one := c
	if c.other != nil && c.r.IntN(3) == 0 {
		one = c.other
	}
	relays := c // whose replicas relay for it
	if one.owner != nil {
		relays = one
	}
	switch c.r.IntN(24) {
	case 0, 1:
		relays.destinations[c.r.IntN(len(relays.destinations))].paused.Store(true)
	case 2, 3, 4:
		for _, d := range relays.destinations {
			d.paused.Store(false)
		}
	case 5:
		one.Silence(simTopics[c.r.IntN(len(simTopics))])
	case 6, 7:
		for _, topic := range simTopics {
			one.Speak(topic)
		}
	case 8:
		one.Remove("b")
	case 9:
		one.Create("b")
	case 10, 11, 12:
		c.change(1)
	case 13:
		relays.giveAway(3)
	case 14, 15:
		relays.takeBack(2)
	case 16:
		if c.r.IntN(3) == 0 {
			time.Sleep(outbox.Late + time.Duration(c.r.IntN(2000))*time.Millisecond)
		}
	case 17:
		one.freeFailed(2)
	case 18:
		if one.parts {
			one.DownPartition("a", c.r.IntN(simPartitions))
		}
	case 19:
		one.UpPartition("a", c.r.IntN(simPartitions))
	case 20:
		if c.r.IntN(4) == 0 {
			c.table.troubles([]overdue{inTime, cancelled, inTime, cancelled}[c.r.IntN(3):], nil)
		}
	default:
		c.insertMany(60)
	}
}

// insertMany inserts fewer rows than most, and commits some transactions.
func (c *schedule) insertMany(most int) {
	for range c.r.IntN(most) {
		c.insert()
	}
	for len(c.open) > 0 && c.r.IntN(3) > 0 {
		c.commit(c.r.IntN(len(c.open)))
	}
}

// change lets another session change one in so many of forty pending rows that were inserted one after the other.
func (c *schedule) change(oneIn int) {
	ids := c.table.pending()
	if len(ids) == 0 {
		return
	}
	from := c.r.IntN(len(ids))
	for _, id := range ids[from:min(len(ids), from+c.r.IntN(40))] {
		if c.r.IntN(oneIn) == 0 {
			c.table.change(id)
		}
	}
}

// giveAway asks for one of so many shards. What cannot be written when a shard is released would be published again.
func (c *schedule) giveAway(oneIn int) {
	if !c.ambiguous && c.deadens {
		return
	}
	for shard := range simShards {
		if c.r.IntN(oneIn) == 0 {
			c.owner.give(shard, c.heir)
		}
	}
}

// takeBack lets one of so many shards that were asked for come back.
func (c *schedule) takeBack(oneIn int) {
	if c.owner == nil {
		return // the other schedule has the owner
	}
	for shard := range simShards {
		if c.r.IntN(oneIn) > 0 {
			continue
		}
		c.owner.takeBack(shard, c.heir)
	}
}
