package relay

import (
	"fmt"
	"slices"
	"time"
)

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
	c.fault(id)
	if c.other != nil {
		c.other.fault(id)
	}
	available, priority := time.Time{}, int64(c.r.IntN(3))
	if c.table.delays && c.r.IntN(5) == 0 {
		available = time.Now().Add(time.Duration(c.r.IntN(3000)) * time.Millisecond)
		if key != "" && !c.ambiguous {
			key = id // such rows may be in one call with others of their key
		}
	}
	x := c.transaction()
	drawn, savepoint := time.Now(), c.savepoint(x.number)
	x.adds = append(x.adds, func() {
		c.table.add(c.tied(ordinal), id, key, topic)
		for table := c.table; table != nil; table = table.own {
			table.rows[id].drawn, table.rows[id].available = drawn, available
			if table.ranked {
				table.rows[id].priority = priority
			}
		}
		if savepoint != 0 {
			*c.table.rows[id].writer = savepoint
		}
	})
	if !slices.Contains(c.open, x) {
		c.table.commit(x.number, x.add)
	}
}

// tied returns the order value for the row with a number.
func (c *schedule) tied(number int64) int64 {
	if c.ties > 0 {
		return number / c.ties * c.ties
	}
	return number
}

func (x *openTransaction) add() {
	for _, add := range x.adds {
		add()
	}
}

// transaction returns the transaction that inserts the next row: a new one, or one that is open.
func (c *schedule) transaction() *openTransaction {
	goesOn := c.late && c.r.IntN(3) == 0
	if n := len(c.open); goesOn && n > 0 && (n == mostOpen || c.r.IntN(2) == 0) {
		return c.open[c.r.IntN(n)]
	}
	x := &openTransaction{number: c.table.begin()}
	if goesOn {
		c.open = append(c.open, x)
	}
	return x
}

// commit commits one of the open transactions.
func (c *schedule) commit(i int) {
	c.table.commit(c.open[i].number, c.open[i].add)
	c.open = slices.Delete(c.open, i, i+1)
}

// savepoint returns the number of a savepoint in the transaction under which a row is written, or 0. Some savepoints
// were rolled back before it.
func (c *schedule) savepoint(transaction uint64) uint64 {
	if c.r.IntN(3) > 0 {
		return 0
	}
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.r.IntN(3) == 0 {
		c.table.rollback(c.table.savepoint(transaction))
	}
	return c.table.savepoint(transaction)
}
