package relay

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// forgotten waits until the dispatch remembers nothing.
func (c *schedule) forgotten() {
	var left string
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		synctest.Wait()
		left = ""
		for _, l := range *c.latest.Load() {
			left += l.engine.Leftover()
		}
		c.config.wake(measure.SourceDoorbell, false) // the loop continues after this
		if left == "" {
			return
		}
	}
	c.t.Errorf("still remembered: %s", left)
}

// destinationOf distinguishes the two destinations of a schedule.
func destinationOf(topic string) string {
	if strings.HasPrefix(topic, "audit.") {
		return "audit "
	}
	return ""
}

func (c *schedule) destinationOf(topic string) string {
	if c.copies {
		return ""
	}
	return destinationOf(topic)
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
		row := c.table.rows[m.ID]
		if m.Key == nil && row.available.IsZero() {
			continue
		}
		called, _ := m.Header(headerCalled)
		nanos, err := strconv.ParseInt(called, 10, 64)
		if err != nil {
			c.t.Fatal(err)
		}
		if time.Unix(0, nanos).Before(row.available) {
			c.t.Errorf("%s was sent at %v, before it was due at %v", m.ID, nanos/1e6, row.available.UnixMilli())
		}
		if m.Key == nil {
			continue
		}
		name := c.destinationOf(m.Topic) + string(m.Key) // destinations do not wait for one another
		byKey[name] = append(byKey[name], delivery{row, time.Unix(0, nanos)})
	}
	failed := map[string][]*simRow{}
	for _, row := range c.table.rows {
		if row.message.Key != nil && row.failures != nil {
			name := c.destinationOf(row.message.Topic) + string(row.message.Key)
			failed[name] = append(failed[name], row)
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

// checkKey allows a younger row before an older one only if its read began before the older one's ended. It does not
// allow it at all if the younger one was inserted after the older one had been committed, or by the same transaction.
// Where failed rows block, a page that was seen may be read again, as soon as there is room, before it is taken.
func (c *schedule) checkKey(key string, deliveries []delivery) {
	for i, old := range deliveries {
		if old.row.failures != nil && !c.block {
			continue // the key continued without it
		}
		for _, young := range deliveries[:i] {
			if !old.row.available.IsZero() || !young.row.available.IsZero() || old.row.priority != young.row.priority {
				continue // no order applies
			}
			if !c.table.position(old.row).Before(c.table.position(young.row)) {
				continue
			}
			if c.table.ordinal && (old.row.committed.Before(young.row.drawn) || old.row.transaction == young.row.transaction) {
				c.t.Errorf("key %s: %s came after %s, which was inserted at %v in transaction %d, and it was committed at %v in %d",
					key,
					old.row.id, young.row.id, young.row.drawn.UnixMilli(), young.row.transaction, old.row.committed.UnixMilli(),
					old.row.transaction)
			}
			// of different transactions, the one that was read first goes first
			unknown := c.table.textIDs && old.row.ordinal == young.row.ordinal
			if !c.block && !unknown && young.row.read.After(old.row.seen) {
				c.t.Errorf("key %s: %s was read at %v, after %s had been read at %v, which came later", key, young.row.id,
					young.row.read.UnixMilli(),
					old.row.id, old.row.seen.UnixMilli())
			}
		}
	}
}

// checkBlocked allows no delivery of a key while one of its rows is failed. Rows with available_at are keys by
// themselves.
func (c *schedule) checkBlocked(key string, deliveries []delivery, failed []*simRow) {
	for _, d := range deliveries {
		for _, f := range failed {
			if !d.row.available.IsZero() || !f.available.IsZero() {
				continue
			}
			for _, s := range f.failures {
				if d.called.After(s.from) && (s.to.IsZero() || d.called.Before(s.to)) {
					c.t.Errorf("key %s: %s was sent at %v while %s had failed, from %v on", key, d.row.id, d.called.UnixMilli(), f.id,
						s.from.UnixMilli())
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
	case c.age > 0 && row.failed && strings.Contains(row.lastError, "expired"): // after any number of attempts
	case unlucky && !row.failed && !row.discarded:
		c.t.Errorf("%s cannot be delivered and did not fail", row.id)
	case row.failed && !unlucky && refused < 5:
		c.t.Errorf("%s failed after %d refusals: %s", row.id, refused, row.lastError)
	case row.failures != nil && !row.failed: // its attempts started again
	case c.table.keepsAttempts && !c.ambiguous && row.attempt != 1+refused-row.vain:
		c.t.Errorf("%s: attempt %d after %d refusals, %d of which could not be written", row.id, row.attempt, refused,
			row.vain)
	case c.table.keepsAttempts && c.table.keepsFailures && !c.ambiguous && refused-row.vain > 5:
		c.t.Errorf("%s: %d refusals", row.id, refused)
	}
}
